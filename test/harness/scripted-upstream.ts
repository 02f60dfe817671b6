import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { ChunkDelta, FinishReason, TokenUsage, ToolCallDelta } from '../../src/base/domain/completion.ts'

/** An upstream with the OpenAI API on a real socket whose behaviour is set by the test. */
export interface ScriptedUpstream {
  /** Ends in `/v1`, without a trailing slash. */
  readonly baseUrl: string
  readonly port: number
  /** All requests except GET, in order of arrival. A request is recorded once its body has been read. */
  readonly requests: readonly RecordedRequest[]
  /** The GET requests: model lists and health checks. */
  readonly probes: readonly RecordedRequest[]
  /** Queues one behaviour for each of the next requests. */
  respondWith(...behaviours: Behaviour[]): void
  /** Sets the behaviour for an empty queue. Default: `answer()`. */
  always(behaviour: Behaviour): void
  /** Sets the behaviour for GET requests. Default: 200 with the list of models. */
  respondToProbesWith(behaviour: Behaviour): void
  /** Returns the next request that no earlier call has returned, and waits for it if necessary. */
  next(): Promise<RecordedRequest>
  /** Closes all connections and the port. Rejects if a behaviour threw. */
  close(): Promise<void>
}

export interface RecordedRequest {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly rawBody: string
  /** The parsed body; empty if it is not a JSON object. */
  readonly body: ScriptedBody
  /** Resolves at the end of the exchange: true if the client disconnected first, false if the script finished or disconnected. */
  readonly aborted: Promise<boolean>
}

export interface ScriptedBody {
  readonly model?: string
  readonly stream?: boolean
  readonly stream_options?: { readonly include_usage?: boolean }
  readonly messages?: readonly { readonly role: string; readonly content: unknown; readonly [key: string]: unknown }[]
  readonly [field: string]: unknown
}

/** Handles one request. It can write to `response`, or directly to `response.socket`. */
export type Behaviour = (request: RecordedRequest, response: ServerResponse) => void | Promise<void>

export async function startScriptedUpstream(options: { models?: readonly string[] } = {}): Promise<ScriptedUpstream> {
  const requests: RecordedRequest[] = []
  const probes: RecordedRequest[] = []
  const queue: Behaviour[] = []
  const failures: unknown[] = []
  let whenEmpty: Behaviour = answer()
  let whenProbed: Behaviour = status(200, {
    object: 'list',
    data: (options.models ?? ['test-model']).map(id => ({ id, object: 'model', created: 1, owned_by: 'scripted' })),
  })
  let returned = 0
  let arrival = Promise.withResolvers<void>()

  const server = createServer(async (incoming, response) => {
    response.on('error', () => {}) // scripts expect clients that disconnect
    const request = await record(incoming, response)
    if (request === null) return
    const isProbe = request.method === 'GET'
    const behaviour = isProbe ? whenProbed : (queue.shift() ?? whenEmpty)
    if (isProbe) {
      probes.push(request)
    } else {
      requests.push(request)
      arrival.resolve()
      arrival = Promise.withResolvers()
    }
    try {
      await behaviour(request, response)
    } catch (error) {
      failures.push(error)
      hangUpOn(response, 'close')
    }
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    baseUrl: `http://127.0.0.1:${port}/v1`,
    port,
    requests,
    probes,
    respondWith(...behaviours) {
      queue.push(...behaviours)
    },
    always(behaviour) {
      whenEmpty = behaviour
    },
    respondToProbesWith(behaviour) {
      whenProbed = behaviour
    },
    async next() {
      const index = returned
      returned += 1
      while (requests.length <= index) await arrival.promise
      return requests[index]!
    },
    async close() {
      if (server.listening) {
        server.close()
        server.closeAllConnections()
        await once(server, 'close')
      }
      if (failures.length > 0) throw new AggregateError(failures, 'a scripted behaviour threw')
    },
  }
}

// Behaviours of a correct upstream.

export interface AnswerOptions {
  text?: string
  /** The deltas of a stream. Default: `text` split before each word. */
  pieces?: readonly string[]
  /** null omits usage even if it is requested. */
  usage?: TokenUsage | null
  /** Default: the model of the request. */
  model?: string
  id?: string
  finishReason?: FinishReason
  /** Function calls instead of text; `arguments` is JSON. */
  toolCalls?: readonly { id?: string; name: string; arguments: string }[]
  /** Delay before the first byte. */
  delayMs?: number
  headers?: Record<string, string>
}

/** A correct answer: a stream if the request asks for one, otherwise a JSON body. */
export function answer(options: AnswerOptions = {}): Behaviour {
  return async (request, response) => {
    if (options.delayMs !== undefined) await delay(options.delayMs)
    const withModel = { ...options, model: options.model ?? request.body.model ?? 'test-model' }
    if (request.body.stream !== true) {
      response.writeHead(200, { 'content-type': 'application/json', ...options.headers })
      response.end(JSON.stringify(completion(withModel)))
      return
    }
    const wantsUsage = request.body.stream_options?.include_usage === true
    const events = streamEvents(wantsUsage ? withModel : { ...withModel, usage: null })
    await sse(events, options.headers ? { headers: options.headers } : {})(request, response)
  }
}

/** Any status with any body. Objects are sent as JSON, strings unchanged. */
export function status(code: number, body: unknown = '', headers: Record<string, string> = {}): Behaviour {
  return (_request, response) => {
    const isText = typeof body === 'string'
    response.writeHead(code, { 'content-type': isText ? 'text/plain' : 'application/json', ...headers })
    response.end(isText ? body : JSON.stringify(body))
  }
}

/** How a response ends: complete, closed with FIN, reset with RST, or open without further bytes. */
export type Ending = 'finish' | 'close' | 'reset' | 'stall'

export interface SseOptions {
  headers?: Record<string, string>
  ending?: Ending
  eol?: '\n' | '\r\n' | '\r'
  /** Awaited before the event with this index is written, so that a test can check the earlier events first. */
  beforeEvent?: (index: number) => Promise<unknown> | undefined
}

/** Server-sent events: objects as JSON, strings such as `[DONE]` unchanged. Does not add `[DONE]`. */
export function sse(events: readonly unknown[], options: SseOptions = {}): Behaviour {
  const { eol = '\n', ending = 'finish' } = options
  return async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream', ...options.headers })
    response.flushHeaders()
    for (const [index, event] of events.entries()) {
      await options.beforeEvent?.(index)
      await writeTo(response, `data: ${typeof event === 'string' ? event : JSON.stringify(event)}${eol}${eol}`)
    }
    leave(response, ending)
  }
}

// Behaviours of faulty upstreams.

export interface RawOptions {
  /** The status of the head. Needs `framing`. Default: 200. */
  status?: number
  /** The headers of the head. Default: `content-type: text/event-stream`. */
  headers?: Record<string, string>
  /**
   * Without it, the bytes are the whole response including the head. With it, a head is written first and the bytes are the
   * body: `chunked` with one chunk per piece, `length` with Content-Length, `close` ended by closing the connection.
   */
  framing?: 'chunked' | 'length' | 'close'
  /** The Content-Length for framing `length`. Default: the true one. */
  contentLength?: number
  /** Awaited before each piece after the first. Default: one turn of the event loop. */
  betweenPieces?: (index: number) => Promise<unknown>
  /** `finish` (the default) ends the chunked body and closes the connection. */
  ending?: Ending
}

export type Bytes = string | Uint8Array

/** Writes exactly these bytes to the socket, one write per piece. */
export function rawResponse(bytes: Bytes | readonly Bytes[], options: RawOptions = {}): Behaviour {
  const pieces = (Array.isArray(bytes) ? (bytes as readonly Bytes[]) : [bytes as Bytes]).map(toBuffer)
  const { framing, ending = 'finish' } = options
  return async (_request, response) => {
    const socket = response.socket
    if (socket === null) return
    socket.setNoDelay(true)
    if (framing !== undefined) await writeTo(socket, rawHead(options, pieces))
    for (const [index, piece] of pieces.entries()) {
      if (index > 0) await (options.betweenPieces?.(index) ?? new Promise(setImmediate))
      await writeTo(socket, framing === 'chunked' ? chunkOf(piece) : piece)
    }
    if (framing === 'chunked' && ending === 'finish') await writeTo(socket, '0\r\n\r\n')
    if (ending !== 'stall') hangUpOn(response, ending === 'reset' ? 'reset' : 'close')
  }
}

/** Sends the head and the first `byteCount` bytes of a body, then closes the connection. Default framing: chunked. */
export function closeAfter(
  byteCount: number,
  options: { body?: Bytes; framing?: 'chunked' | 'length' | 'close'; reset?: boolean } = {},
): Behaviour {
  const body = toBuffer(options.body ?? streamBytes())
  const framing = options.framing ?? 'chunked'
  return rawResponse(byteCount === 0 ? [] : body.subarray(0, byteCount), {
    framing,
    contentLength: body.length,
    ending: options.reset ? 'reset' : 'close',
  })
}

/** Closes the connection without a byte, with FIN or RST. */
export function hangUp(how: 'close' | 'reset' = 'close'): Behaviour {
  return (_request, response) => hangUpOn(response, how)
}

/** Sends nothing more until the client disconnects: from the start, after the headers, or after some deltas of a stream. */
export function stall(after: 'nothing' | 'headers' | { pieces: readonly string[] } = 'nothing'): Behaviour {
  if (after === 'nothing') return () => {}
  const pieces = after === 'headers' ? [] : after.pieces
  const events = pieces.length === 0 ? [] : [chunk({ role: 'assistant', content: '' }), ...pieces.map(contentChunk)]
  return sse(events, { ending: 'stall' })
}

/** The login page of a proxy with status 200. */
export function html200(): Behaviour {
  const page = '<!doctype html><html><head><title>Sign in</title></head><body><h1>Please sign in</h1></body></html>'
  return status(200, page, { 'content-type': 'text/html; charset=utf-8' })
}

/** Streams deltas until the client disconnects. */
export function neverEnding(options: { piece?: string; everyMs?: number } = {}): Behaviour {
  const event = `data: ${JSON.stringify(contentChunk(options.piece ?? 'more '))}\n\n`
  return async (_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(`data: ${JSON.stringify(chunk({ role: 'assistant', content: '' }))}\n\n`)
    while (!response.destroyed) {
      await writeTo(response, event)
      await delay(options.everyMs ?? 2)
    }
  }
}

// Parts of answers.

/** The events of a correct stream: role, deltas, finish, usage unless it is null, and `[DONE]`. */
export function streamEvents(options: AnswerOptions = {}): unknown[] {
  const head = { id: options.id ?? defaultId, model: options.model ?? 'test-model' }
  const calls = options.toolCalls ?? []
  const finish = options.finishReason ?? (calls.length > 0 ? 'tool_calls' : 'stop')
  const usage = options.usage === undefined ? defaultUsage(options) : options.usage
  const deltas: ChunkDelta[] =
    calls.length > 0
      ? calls.flatMap((call, index) => toolCallDeltas(call, index).map(delta => ({ tool_calls: [delta] })))
      : piecesOf(options).map(content => ({ content }))
  return [
    chunk({ role: 'assistant', content: calls.length > 0 ? null : '' }, null, head),
    ...deltas.map(delta => chunk(delta, null, head)),
    chunk({}, finish, head),
    ...(usage === null ? [] : [usageChunk(usage, head)]),
    '[DONE]',
  ]
}

/** The body of a correct stream. */
export function streamBytes(options: AnswerOptions = {}): Buffer {
  return sseBytes(streamEvents(options))
}

/** Encodes events as the body of a stream. */
export function sseBytes(events: readonly unknown[], eol = '\n'): Buffer {
  const lines = events.map(event => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}${eol}${eol}`)
  return Buffer.from(lines.join(''))
}

/** Splits bytes into single ones for `rawResponse`, which splits every character and line end. */
export function bytewise(bytes: Bytes): Buffer[] {
  const buffer = toBuffer(bytes)
  return Array.from(buffer, (_byte, at) => buffer.subarray(at, at + 1))
}

/** A stream chunk with one choice. */
export function chunk(
  delta: ChunkDelta,
  finishReason: FinishReason | null = null,
  head: { id?: string; model?: string } = {},
): Record<string, unknown> {
  return { ...chunkHead(head), choices: [{ index: 0, delta, finish_reason: finishReason }] }
}

export function contentChunk(content: string): Record<string, unknown> {
  return chunk({ content })
}

export function usageChunk(usage: TokenUsage, head: { id?: string; model?: string } = {}): Record<string, unknown> {
  return { ...chunkHead(head), choices: [], usage }
}

/** The body of a correct JSON answer. */
export function completion(options: AnswerOptions = {}): Record<string, unknown> {
  const calls = options.toolCalls ?? []
  const usage = options.usage === undefined ? defaultUsage(options) : options.usage
  const message =
    calls.length > 0
      ? { role: 'assistant', content: null, tool_calls: calls.map(toolCallBody) }
      : { role: 'assistant', content: piecesOf(options).join('') }
  const finish = options.finishReason ?? (calls.length > 0 ? 'tool_calls' : 'stop')
  return {
    id: options.id ?? defaultId,
    object: 'chat.completion',
    created: defaultCreated,
    model: options.model ?? 'test-model',
    choices: [{ index: 0, message, finish_reason: finish, logprobs: null }],
    ...(usage === null ? {} : { usage }),
  }
}

/** Usage as an upstream reports it. */
export function usageOf(promptTokens: number, completionTokens: number): TokenUsage {
  return {
    prompt_tokens: promptTokens,
    completion_tokens: completionTokens,
    total_tokens: promptTokens + completionTokens,
  }
}

const defaultId = 'chatcmpl-scripted'
const defaultCreated = 1_750_000_000

function chunkHead(head: { id?: string; model?: string }) {
  return {
    id: head.id ?? defaultId,
    object: 'chat.completion.chunk',
    created: defaultCreated,
    model: head.model ?? 'test-model',
  }
}

/** Ten prompt tokens and one completion token per delta, which is easy to verify by eye. */
function defaultUsage(options: AnswerOptions): TokenUsage {
  return usageOf(10, options.toolCalls ? 5 * options.toolCalls.length : piecesOf(options).length)
}

function piecesOf(options: AnswerOptions): readonly string[] {
  return options.pieces ?? (options.text ?? 'Hello from the scripted upstream.').split(/(?=\s)/).filter(Boolean)
}

type ScriptedCall = NonNullable<AnswerOptions['toolCalls']>[number]

function toolCallBody(call: ScriptedCall, index: number) {
  return { id: call.id ?? `call_${index}`, type: 'function', function: { name: call.name, arguments: call.arguments } }
}

function toolCallDeltas(call: ScriptedCall, index: number): ToolCallDelta[] {
  const { id, type, function: called } = toolCallBody(call, index)
  const half = Math.ceil(called.arguments.length / 2)
  const parts = [called.arguments.slice(0, half), called.arguments.slice(half)].filter(Boolean)
  return [
    { index, id, type, function: { name: called.name, arguments: '' } },
    ...parts.map(part => ({ index, function: { arguments: part } })),
  ]
}

async function record(incoming: IncomingMessage, response: ServerResponse): Promise<RecordedRequest | null> {
  const { promise: aborted, resolve } = Promise.withResolvers<boolean>()
  response.once('close', () => resolve(!response.writableFinished && !hungUp.has(response)))
  const parts: Buffer[] = []
  try {
    for await (const part of incoming) parts.push(part)
  } catch {
    return null // the client disconnected before the end of the body
  }
  const rawBody = Buffer.concat(parts).toString('utf8')
  return {
    method: incoming.method ?? '',
    path: incoming.url ?? '',
    headers: incoming.headers,
    rawBody,
    body: parseObject(rawBody),
    aborted,
  }
}

function parseObject(text: string): ScriptedBody {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as ScriptedBody) : {}
  } catch {
    return {}
  }
}

/** Responses that the script has cut, as opposed to the client. */
const hungUp = new WeakSet<ServerResponse>()

function hangUpOn(response: ServerResponse, how: 'close' | 'reset'): void {
  hungUp.add(response)
  const socket = response.socket
  if (how === 'reset') socket?.resetAndDestroy()
  else socket?.destroySoon()
}

function leave(response: ServerResponse, ending: Ending): void {
  if (ending === 'finish') response.end()
  else if (ending !== 'stall') hangUpOn(response, ending)
}

function rawHead(options: RawOptions, pieces: readonly Buffer[]): string {
  const length = options.contentLength ?? pieces.reduce((sum, piece) => sum + piece.length, 0)
  const framing = {
    chunked: { 'transfer-encoding': 'chunked' },
    length: { 'content-length': String(length) },
    close: {},
  }[options.framing ?? 'close']
  const headers = { 'content-type': 'text/event-stream', connection: 'close', ...framing, ...options.headers }
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  return `HTTP/1.1 ${options.status ?? 200} Scripted\r\n${lines.join('')}\r\n`
}

function chunkOf(piece: Buffer): Buffer {
  // An empty chunk would end the body.
  if (piece.length === 0) return piece
  return Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from('\r\n')])
}

function toBuffer(bytes: Bytes): Buffer {
  return typeof bytes === 'string' ? Buffer.from(bytes) : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/** Resolves when the bytes are handed to the system or the connection is closed. */
function writeTo(target: ServerResponse | Socket, bytes: Bytes): Promise<void> {
  return new Promise(resolve => {
    if (target.destroyed) return resolve()
    target.once('close', resolve)
    target.write(bytes, () => {
      target.off('close', resolve)
      resolve()
    })
  })
}
