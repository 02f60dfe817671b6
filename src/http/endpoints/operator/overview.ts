import type { OperatorConsole } from '../../../operator/operator-console.ts'
import type { OverviewWatch } from '../../../operator/overview-watch.ts'
import { overview } from '../../../wire/api/operator/overview.ts'
import type { Endpoint } from '../../endpoint.ts'
import { liveStream } from '../live-stream.ts'
import { operatorEndpoint } from './operator-endpoint.ts'

/** GET /console/api/operator/overview */
export function operatorOverview({ operator }: { readonly operator: OperatorConsole }): Endpoint {
  return operatorEndpoint(
    'GET',
    'overview',
    { scope: 'read', summary: 'Show the state of the installation', schema: overview },
    () => operator.overview(),
  )
}

/** GET /console/api/operator/live: server-sent events with the overview, while a page is open. */
export function operatorLive({ watch }: { readonly watch: OverviewWatch }): Endpoint {
  return operatorEndpoint(
    'GET',
    'live',
    { scope: null, summary: 'Watch the overview', schema: overview },
    ({ signedIn, reply }) =>
      liveStream(reply, 'overview', ({ onState, onEnd }) =>
        watch.watch(signedIn.sessionId, { onChange: onState, onEnd }),
      ),
  )
}
