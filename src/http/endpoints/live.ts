import { PassThrough } from 'node:stream'
import { usd } from '../../base/domain/money.ts'
import type { LiveWatch } from '../../identity/live/live-watch.ts'
import type { StoredState } from '../../identity/live/read-live-states.ts'
import { type LiveEnd, type LiveState, liveState, liveTopics } from '../../wire/api/live.ts'
import type { Endpoint } from '../endpoint.ts'

/** Proxies cut quiet connections after 60 seconds and more. */
const PING_EVERY_MS = 25_000
/** How long a browser waits before it connects again. */
const RETRY_MS = 3_000

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
    handle({ signedIn, caller: { customerId }, reply }) {
      const stream = new PassThrough()
      const stopWatching = watch.watch(
        { sessionId: signedIn.sessionId, personId: signedIn.person.personId, customerId },
        {
          onState: state => send(stream, 'state', showState(state)),
          onEnd: reason => stream.end(eventText('end', { reason })),
        },
      )
      const ping = setInterval(() => stream.write(': ping\n\n'), PING_EVERY_MS)
      ping.unref()
      stream.once('close', () => {
        clearInterval(ping)
        stopWatching()
      })
      stream.write(`retry: ${RETRY_MS}\n\n`)
      // Nginx would gather the events.
      reply.type('text/event-stream').header('x-accel-buffering', 'no')
      return stream
    },
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

/** Leaves an event out while the client does not read: the next one has the whole state. */
function send(stream: PassThrough, event: 'state', data: LiveState): void {
  if (stream.writableNeedDrain) return
  stream.write(eventText(event, data))
}

function eventText(event: 'state' | 'end', data: LiveState | LiveEnd): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}
