// The two packages of the benchmark that ship no types; only what is used here.

declare module 'autocannon' {
  import type { EventEmitter } from 'node:events'

  type Request = { method: 'POST'; headers: Record<string, string>; body: string }
  type Options = {
    url: string
    method: 'POST'
    /** Called for each connection before its first request. */
    setupClient(client: { setRequests(requests: Request[]): void }): void
    connections: number
    /** Seconds. */
    amount: number
    /** Milliseconds between two looks at whether the time is up. */
    sampleInt: number
  }
  type Result = {
    requests: { sent: number }
    '2xx': number
    non2xx: number
    errors: number
    timeouts: number
  }
  export default function autocannon(options: Options): EventEmitter & PromiseLike<Result>
}

declare module '@portkey-ai/gateway/build/start-server.js'
