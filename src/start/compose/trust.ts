import type { Endpoint } from '../../http/endpoint.ts'
import type { OperatorDoor } from '../../http/endpoints/operator/operator-endpoint.ts'
import { trustEndpoints } from '../../http/endpoints/trust.ts'
import { createTrustDesk, type TrustDesk } from '../../trust/trust-desk.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import { smallBodyLimit } from './small-body-limit.ts'

/** Why hosters are trusted, and what operators decide about that. */
export interface Trust {
  readonly desk: TrustDesk
  readonly endpoints: readonly Endpoint[]
}

export function createTrust(
  { config, clock }: ComposeContext,
  { general }: Database,
  addressOf: OperatorDoor['addressOf'],
): Trust {
  const desk = createTrustDesk({ pool: general, clock })
  const bodyLimitBytes = smallBodyLimit(config.server.bodyLimitBytes)
  return { desk, endpoints: trustEndpoints({ desk, addressOf, bodyLimitBytes }) }
}
