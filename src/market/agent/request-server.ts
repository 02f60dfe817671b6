import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { createWebSocketStream, type WebSocket } from 'ws'
import { http } from '../../base/runtime/node-http.ts'
import type { Slots } from './slots.ts'
import { AnswerMeter } from './token-rate.ts'
import type { UpstreamServer } from './upstream.ts'

/** The addresses of requests that generate something, below the base URL. Everything else is refused. */
const GENERATION_PATHS: ReadonlySet<string> = new Set([
  '/chat/completions',
  '/completions',
  '/embeddings',
  '/responses',
  '/messages',
  '/rerank',
])
/** Larger than any body that a gateway accepts. */
const BODY_BYTES_MAX = 64 * 1024 * 1024
/** A gateway sends the head of its request at once. */
const HEAD_TIMEOUT_MS = 10_000
const BODY_TIMEOUT_MS = 60_000
/** Headers of the model server that pass. All others are dropped. */
const PASSED_HEADERS = ['content-type', 'retry-after'] as const

export interface RequestServerDeps {
  readonly upstream: UpstreamServer
  readonly slots: Slots
  /** Whether the model is announced. */
  readonly isAnnounced: (model: string) => boolean
  /** Why no request is served now; null if requests are served. */
  readonly refusal: () => string | null
  readonly onTokens: (tokens: number) => void
}

/**
 * Serves the requests that arrive over data connections. Each connection is the byte stream of one HTTP/1.1 request.
 * Only requests for announced models pass, to the one model server.
 */
export class RequestServer {
  readonly #deps: RequestServerDeps
  readonly #server: Server
  /** The data connections on which a request has begun. */
  readonly #active = new Set<WebSocket>()
  #onIdle: (() => void) | null = null

  constructor(deps: RequestServerDeps) {
    this.#deps = deps
    this.#server = http.createServer(
      { headersTimeout: HEAD_TIMEOUT_MS, requestTimeout: BODY_TIMEOUT_MS, connectionsCheckingInterval: 5_000 },
      (request, response) => void this.#serve(request, response),
    )
    this.#server.maxRequestsPerSocket = 1
    this.#server.on('clientError', (_error, socket) => socket.destroy())
  }

  /** Serves one request from a data connection. */
  serve(socket: WebSocket): void {
    socket.once('message', () => this.#active.add(socket)).once('close', () => this.#onClosed(socket))
    const stream = createWebSocketStream(socket)
    stream.on('error', () => stream.destroy())
    // The gateway has the whole response or wants no more of it. The library would only end the readable side.
    socket.once('close', () => stream.destroy())
    // node:http accepts any duplex stream (https://nodejs.org/api/http.html#event-connection).
    this.#server.emit('connection', stream)
  }

  /** Calls back once no request is left, after the gateway has read the last response. */
  onIdle(callback: () => void): void {
    this.#onIdle = callback
    if (this.#active.size === 0) callback()
  }

  #onClosed(socket: WebSocket): void {
    this.#active.delete(socket)
    if (this.#active.size === 0) this.#onIdle?.()
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    request.on('error', ignore)
    response.on('error', ignore)
    // node:http ends sockets after their last response, but not other streams.
    const { socket } = request
    response.once('finish', () => socket.end())
    const path = pathOf(request)
    if (path === undefined) return refuse(response, 404, 'The agent forwards nothing else.')
    const body = await readBody(request)
    if (body === undefined) return refuse(response, 413, 'The request is too large for the agent.')
    if (response.destroyed) return
    const { model, isStream } = readRequest(body)
    const { slots, isAnnounced, refusal } = this.#deps
    if (model === undefined || !isAnnounced(model)) return refuse(response, 404, 'The agent does not offer this model.')
    const reason = refusal()
    if (reason !== null) return refuse(response, 429, `The agent takes no requests now: ${reason}.`)
    const leave = slots.take(model)
    if (leave === null) return refuse(response, 429, 'All places for this model are taken.')
    this.#forward(response, { path, body, accept: isStream ? 'text/event-stream' : 'application/json' }, leave)
  }

  #forward(
    response: ServerResponse,
    call: { readonly path: string; readonly body: Buffer; readonly accept: string },
    leave: () => void,
  ): void {
    const meter = new AnswerMeter()
    const abort = this.#deps.upstream.send(
      call,
      answer => {
        const headers = PASSED_HEADERS.flatMap(name => (answer.headers[name] ? [[name, answer.headers[name]]] : []))
        response.writeHead(answer.statusCode!, Object.fromEntries(headers))
        // The client waits for the head of a stream while the model reads the prompt.
        response.flushHeaders()
        answer.on('data', (piece: Buffer) => meter.add(piece))
        // The gateway must see a cut answer as cut.
        answer.once('close', () => !answer.complete && response.destroy())
        answer.pipe(response)
      },
      () => refuse(response, 502, 'The model server does not answer.'),
    )
    response.once('close', () => {
      if (!response.writableFinished) abort()
      leave()
      this.#deps.onTokens(meter.tokens(call.body.length))
    })
  }
}

function pathOf({ method, url = '' }: IncomingMessage): string | undefined {
  const path = url.startsWith('/v1/') ? url.slice('/v1'.length) : ''
  return method === 'POST' && GENERATION_PATHS.has(path) ? path : undefined
}

/** Returns undefined for a body that is too large or was cut. */
async function readBody(request: IncomingMessage): Promise<Buffer | undefined> {
  const parts: Buffer[] = []
  let bytes = 0
  try {
    for await (const part of request as AsyncIterable<Buffer>) {
      bytes += part.length
      if (bytes > BODY_BYTES_MAX) return undefined
      parts.push(part)
    }
  } catch {
    return undefined
  }
  return Buffer.concat(parts)
}

function readRequest(body: Buffer): { readonly model?: string; readonly isStream: boolean } {
  try {
    const { model, stream } = JSON.parse(body.toString('utf8')) as { model?: unknown; stream?: unknown }
    return { ...(typeof model === 'string' && { model }), isStream: stream === true }
  } catch {
    return { isStream: false }
  }
}

function refuse(response: ServerResponse, status: 404 | 413 | 429 | 502, message: string): void {
  if (response.headersSent || response.destroyed) {
    response.destroy()
    return
  }
  const body = JSON.stringify({ error: { message, type: 'agent_error', param: null, code: null } })
  response
    .writeHead(status, {
      'content-type': 'application/json',
      'content-length': Buffer.byteLength(body),
      ...(status === 429 && { 'retry-after': '1' }),
    })
    .end(body)
}

function ignore(): void {}
