import { PassThrough } from 'node:stream'
import type { OperatorConsole } from '../../../operator/operator-console.ts'
import type { OverviewWatch } from '../../../operator/overview-watch.ts'
import { overview } from '../../../wire/api/operator/overview.ts'
import type { Endpoint } from '../../endpoint.ts'
import { operatorEndpoint } from './operator-endpoint.ts'

/** GET /console/api/operator/overview */
export function operatorOverview({ operator }: { readonly operator: OperatorConsole }): Endpoint {
  return operatorEndpoint('GET', 'overview', { summary: 'Show the state of the installation', schema: overview }, () =>
    operator.overview(),
  )
}

/** Proxies cut quiet connections after 60 seconds and more. */
const PING_EVERY_MS = 25_000
/** How long a browser waits before it connects again. */
const RETRY_MS = 3_000

/** GET /console/api/operator/live: server-sent events with the overview, while a page is open. */
export function operatorLive({ watch }: { readonly watch: OverviewWatch }): Endpoint {
  return operatorEndpoint('GET', 'live', { summary: 'Watch the overview', schema: overview }, ({ signedIn, reply }) => {
    const stream = new PassThrough()
    const stopWatching = watch.watch(signedIn.sessionId, {
      onChange(changed) {
        // Left out while the client does not read: the next event has the whole state.
        if (!stream.writableNeedDrain) stream.write(eventText('overview', changed))
      },
      onEnd: reason => stream.end(eventText('end', { reason })),
    })
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
  })
}

function eventText(event: 'overview' | 'end', data: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}
