import type { Behaviour, ClientBehaviour, ServerBehaviour } from './behaviour.ts'
import { bodyClients } from './clients/bodies.ts'
import { connectionClients, connectionStrangers } from './clients/connections.ts'
import { dialectClients } from './clients/dialect-bodies.ts'
import { endpointClients, endpointStrangers } from './clients/endpoints.ts'
import { bodyBehaviours } from './servers/bodies.ts'
import { dataBehaviours } from './servers/data.ts'
import { dialectBehaviours } from './servers/dialects.ts'
import { errorBehaviours } from './servers/errors.ts'
import { framingBehaviours } from './servers/framing.ts'
import { streamBehaviours } from './servers/streams.ts'
import { timingBehaviours } from './servers/timing.ts'

export const serverBehaviours: readonly ServerBehaviour[] = [
  ...streamBehaviours,
  ...bodyBehaviours,
  ...dialectBehaviours,
  ...dataBehaviours,
  ...framingBehaviours,
  ...timingBehaviours,
  ...errorBehaviours,
]

const clientBehaviours: readonly ClientBehaviour[] = [
  ...bodyClients,
  ...dialectClients,
  ...connectionClients,
  ...endpointClients,
  ...connectionStrangers,
  ...endpointStrangers,
]

/** All behaviours, in the order of the report. */
export const behaviours: readonly Behaviour[] = [...serverBehaviours, ...clientBehaviours]
