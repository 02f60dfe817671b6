import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { onTestFinished } from 'vitest'
import { type ClientOptions, WebSocket } from 'ws'
import type { TestCustomer } from './app.ts'

/** One message of the gateway. */
export interface SocketEvent {
  readonly type: string
  readonly stream_id?: string
  readonly status?: number
  readonly error?: { readonly code: string; readonly message: string; readonly param: string | null }
  readonly headers?: Record<string, string>
  readonly delta?: string
  readonly sequence_number?: number
  // biome-ignore lint/suspicious/noExplicitAny: a response in whatever state
  readonly response?: any
}

const ENDS = new Set(['response.completed', 'response.incomplete', 'response.failed', 'error'])

/** A WebSocket of `/v1/responses`. */
export class ResponseSocket {
  readonly socket: WebSocket
  /** The code with which it was closed. */
  readonly closed: Promise<number>
  readonly received: SocketEvent[] = []
  #read = 0
  #arrival = Promise.withResolvers<void>()

  constructor(socket: WebSocket) {
    this.socket = socket
    this.closed = once(socket, 'close').then(([code]) => code as number)
    socket.on('message', (data: Buffer) => {
      this.received.push(JSON.parse(data.toString()))
      this.#arrival.resolve()
      this.#arrival = Promise.withResolvers()
    })
    socket.on('error', () => {})
    // Nothing arrives any more.
    socket.once('close', () => this.#arrival.resolve())
  }

  send(event: object): void {
    this.socket.send(JSON.stringify(event))
  }

  /** Returns the next event that no earlier call has returned, and waits for it. Rejects when the socket closes. */
  async next(): Promise<SocketEvent> {
    while (this.received.length <= this.#read) {
      if (this.socket.readyState === WebSocket.CLOSED) throw new Error('the socket closed before the next event')
      await this.#arrival.promise
    }
    return this.received[this.#read++]!
  }

  /** Returns the events up to the end of the next response that ends. */
  async untilEnd(): Promise<SocketEvent[]> {
    const events: SocketEvent[] = []
    for (;;) {
      const event = await this.next()
      events.push(event)
      if (ENDS.has(event.type)) return events
    }
  }

  /** Asks for a response and returns its last event. */
  async ask(fields: object): Promise<SocketEvent> {
    this.send({ type: 'response.create', ...fields })
    return (await this.untilEnd()).at(-1)!
  }
}

const addressOf = (url: string) => `${url.replace('http', 'ws')}/v1/responses`
const withKey = ({ key }: Pick<TestCustomer, 'key'>, { headers, ...options }: ClientOptions = {}): ClientOptions => ({
  ...options,
  headers: { authorization: `Bearer ${key}`, ...headers },
})

/** Opens a WebSocket, which is closed after the test. */
export async function openResponses(
  { url }: { readonly url: string },
  customer: Pick<TestCustomer, 'key'>,
  options?: ClientOptions,
): Promise<ResponseSocket> {
  const socket = new WebSocket(addressOf(url), withKey(customer, options))
  onTestFinished(() => socket.terminate())
  const opened = new ResponseSocket(socket)
  await once(socket, 'open')
  return opened
}

/** Returns the answer to a handshake that is refused. */
export async function refusedHandshake(
  { url }: { readonly url: string },
  customer: Pick<TestCustomer, 'key'>,
  options?: ClientOptions,
): Promise<{ readonly status: number | undefined; readonly headers: object; readonly code: string }> {
  const socket = new WebSocket(addressOf(url), withKey(customer, options))
  const [, response] = (await once(socket, 'unexpected-response')) as [unknown, IncomingMessage]
  const body = JSON.parse(Buffer.concat(await response.toArray()).toString())
  socket.on('error', () => {}).terminate()
  return { status: response.statusCode, headers: response.headers, code: body.error.code }
}
