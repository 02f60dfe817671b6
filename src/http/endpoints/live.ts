import { usd } from '../../base/domain/money.ts'
import type { LiveWatch } from '../../identity/live/live-watch.ts'
import type { StoredState } from '../../identity/live/read-live-states.ts'
import { type LiveState, liveState, liveTopics } from '../../wire/api/live.ts'
import type { Endpoint } from '../endpoint.ts'
import { liveStream } from './live-stream.ts'

/** GET /console/api/customers/{id}/live: server-sent events while a page is open. */
export function live({ watch }: { readonly watch: LiveWatch }): Endpoint {
  return {
    method: 'GET',
    path: '/console/api/customers/:customer_id/live',
    access: 'session',
    right: 'usage',
    doc: {
      operationId: 'watchCustomer',
      summary: 'Watch a customer',
      description: 'Sends the state of the customer whenever it has changed.',
      tag: 'Service',
      isHidden: true,
      response: { contentType: 'text/event-stream', schema: liveState, description: 'The events `state` and `end`.' },
    },
    handle: ({ signedIn, caller: { customerId }, reply }) =>
      liveStream<LiveState>(reply, 'state', ({ onState, onEnd }) =>
        watch.watch(
          { sessionId: signedIn.sessionId, personId: signedIn.person.personId, customerId },
          { onState: state => onState(showState(state)), onEnd },
        ),
      ),
  }
}

function showState({ balanceNanos, newestRequestId, requestsToday, versions }: StoredState): LiveState {
  return {
    balance_usd: usd(BigInt(balanceNanos)),
    newest_request_id: newestRequestId,
    requests_today: requestsToday,
    versions: Object.fromEntries(liveTopics.map(topic => [topic, versions[topic] ?? 0])) as LiveState['versions'],
  }
}
