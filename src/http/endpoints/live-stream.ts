import { PassThrough } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { LiveEnd } from '../../wire/api/live.ts'

/** Proxies cut quiet connections after 60 seconds and more. */
const PING_EVERY_MS = 25_000
/** How long a browser waits before it connects again. */
const RETRY_MS = 3_000

/** What a page that is open gets: whole states, each in place of the one before, until the end. */
export interface LiveEvents<State> {
  /** Leaves the state out while the client does not read: the next one is whole. */
  onState(state: State): void
  onEnd(reason: LiveEnd['reason']): void
}

/**
 * Answers with server-sent events: states, by the name `event`, and `end`.
 *
 * @param watch begins to call the events; returns what ends that when the client leaves
 */
export function liveStream<State>(
  reply: FastifyReply,
  event: string,
  watch: (events: LiveEvents<State>) => () => void,
): PassThrough {
  const stream = new PassThrough()
  const stopWatching = watch({
    onState(state) {
      if (!stream.writableNeedDrain) stream.write(eventText(event, state))
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
}

function eventText(event: string, data: unknown): string {
  return `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`
}
