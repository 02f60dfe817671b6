import type { Socket } from 'node:net'
import type { WebSocket } from 'ws'
import { ApiError, memoryUsedUp } from '../../base/domain/errors.ts'
import type { HeaderList } from '../../base/runtime/header-list.ts'
import type { JsonObject } from '../../base/runtime/json-object.ts'
import { errorBody } from '../../wire/dialects/openai-error-body.ts'
import { readClientEvent } from '../../wire/dialects/responses/client-event.ts'
import { continuedInput, joined, namedAsSent } from '../../wire/dialects/responses/continued-input.ts'
import type { ResponsesDialect } from '../../wire/dialects/responses/responses-dialect.ts'
import { noteAnswered, noteRequest } from '../connection-bound.ts'
import type { GenerationRequest, GenerationResponse } from '../generation-exchange.ts'
import { CLIENT_CLOSED_REQUEST, type OnResponse } from '../generation-routes.ts'
import type { InFlight } from '../in-flight.ts'
import { type BodyTurns, bodyTooLarge } from '../request-body.ts'
import { errorHeaders } from '../respond-error.ts'
import { IncomingBytes } from './incoming-bytes.ts'
import { KeptResponse, type KeptResponses } from './kept-responses.ts'
import { ResponseLane, type Turn } from './response-lane.ts'
import { errorEvent, SocketRequest, SocketResponse } from './socket-exchange.ts'

/** Serves one request for a response, as a POST with the same body. Always answers and never rejects. */
export type ServeResponse = (
  dialect: ResponsesDialect,
  request: GenerationRequest,
  response: GenerationResponse,
) => Promise<void>

export interface SessionDeps {
  readonly dialect: ResponsesDialect
  readonly serve: ServeResponse
  /** Serves a request that generates nothing. */
  readonly warmUp: ServeResponse
  readonly inFlight: Pick<InFlight, 'open'>
  readonly bodyTurns: Pick<BodyTurns, 'next'>
  readonly bodyLimitBytes: number
  readonly kept: KeptResponses
  readonly onResponse: OnResponse
}

/** The two sides of an accepted WebSocket, and who opened it. */
export interface AcceptedSocket {
  readonly websocket: WebSocket
  readonly socket: Socket
  readonly handshake: GenerationRequest
  readonly customerId: string
}

/** As OpenAI: responses that run at once, and names of lanes. */
const RUNNING_MAX = 16
const NAMED_LANES_MAX = 32
/** Requests that wait for an earlier one of their lane. */
const WAITING_MAX = 32
/** A client that sends what is refused, and does not read the refusals, is closed. */
const UNREAD_REFUSALS_BYTES_MAX = 65_536

/** How a WebSocket is closed (RFC 6455, 7.4.1). */
export const closeCodes = {
  normal: 1000,
  goingAway: 1001,
  noText: 1003,
  policy: 1008,
  tooLarge: 1009,
  tryLater: 1013,
} as const
/** The other side has this long to close too. */
const CLOSING_MS_MAX = 1_000

/** One WebSocket of `/v1/responses`. Each `response.create` is served as a POST: see `ServeResponse`. */
export class ResponseSession {
  readonly customerId: string
  readonly openedMs: number
  readonly #deps: SessionDeps
  readonly #websocket: WebSocket
  readonly #socket: Socket
  readonly #handshake: GenerationRequest
  readonly #incoming: IncomingBytes
  readonly #lanes = new Map<string | null, ResponseLane>()
  /** Messages that are read one after another, in the order of their arrival. */
  readonly #inbox: { readonly data: Buffer; readonly account: Turn['account'] }[] = []
  readonly #running = new Set<SocketResponse>()
  #isReading = false
  #isClosing = false
  #lastUsedMs: number
  /** Why the connection ends when nothing runs any more. */
  #ending: { readonly code: number; readonly error: ApiError | null } | null = null

  constructor(deps: SessionDeps, { websocket, socket, handshake, customerId }: AcceptedSocket, nowMs: number) {
    this.#deps = deps
    this.#websocket = websocket
    this.#socket = socket
    this.#handshake = handshake
    this.customerId = customerId
    this.openedMs = nowMs
    this.#lastUsedMs = nowMs
    this.#incoming = new IncomingBytes(deps.inFlight, customerId, deps.bodyLimitBytes)
    websocket
      .on('message', (data: Buffer, isBinary: boolean) => this.#onMessage(data, isBinary))
      .on('ping', (data: Buffer) => this.#incoming.passControl(data.length))
      .on('pong', (data: Buffer) => this.#incoming.passControl(data.length))
      // A message that breaks the protocol. The library closes the connection.
      .on('error', ignore)
      .once('close', () => this.#onClose())
    // Before the listener of the library, which would keep the bytes.
    socket.prependListener('data', (bytes: Buffer) => this.#onBytes(bytes.length))
  }

  /** Whether nothing runs and nothing waits. */
  get isIdle(): boolean {
    if (this.#running.size > 0 || this.#inbox.length > 0 || this.#isReading) return false
    return !this.#lanes.values().some(({ waiting }) => waiting.length > 0)
  }

  /** performance.now() of the last message. */
  get lastUsedMs(): number {
    return this.#lastUsedMs
  }

  /** Closes the connection now if nothing runs, else after what runs and waits. `error` is sent before. */
  closeWhenIdle(code: number, error: ApiError | null = null): void {
    this.#ending ??= { code, error }
    this.#endIfIdle()
  }

  /** Ends a connection on which a message has been arriving for too long. */
  checkArrival(nowMs: number): void {
    if (this.#incoming.isLate(nowMs)) this.#refuseAndClose(new ApiError('request_timeout'), closeCodes.policy)
  }

  close(code: number): void {
    if (this.#isClosing) return
    this.#isClosing = true
    this.#websocket.close(code)
    setTimeout(() => this.#websocket.terminate(), CLOSING_MS_MAX).unref()
  }

  terminate(): void {
    this.#websocket.terminate()
  }

  #onBytes(bytes: number): void {
    const refusal = this.#incoming.add(bytes, performance.now())
    if (refusal === null) return
    if (this.#isClosing) {
      this.terminate()
      return
    }
    const isTooLarge = refusal.code === 'request_too_large'
    this.#refuseAndClose(refusal, isTooLarge ? closeCodes.tooLarge : closeCodes.tryLater)
    // What still comes would be kept until the connection is closed.
    this.#websocket.pause()
  }

  #onMessage(data: Buffer, isBinary: boolean): void {
    const account = this.#incoming.complete(data.length)
    this.#lastUsedMs = performance.now()
    const refusal = account instanceof ApiError ? account : this.#refusalOf(data, isBinary)
    if (!(account instanceof ApiError) && refusal === null && !this.#isClosing) {
      this.#inbox.push({ data, account })
      void this.#readInbox()
      return
    }
    if (!(account instanceof ApiError)) account.leave()
    if (refusal === null || this.#isClosing) return
    this.#refuse(refusal)
    if (isBinary) this.close(closeCodes.noText)
  }

  #refusalOf(data: Buffer, isBinary: boolean): ApiError | null {
    if (isBinary) return new ApiError('invalid_json', { message: 'Send each event as a text message of JSON.' })
    if (data.length > this.#deps.bodyLimitBytes) return bodyTooLarge(this.#deps.bodyLimitBytes)
    if (this.#ending?.error) return this.#ending.error
    let waiting = this.#inbox.length
    for (const lane of this.#lanes.values()) waiting += lane.waiting.length
    if (waiting < WAITING_MAX) return null
    return new ApiError('too_many_concurrent_requests', {
      message: `${WAITING_MAX} requests wait on this connection. Send the next one when some have finished.`,
      retryAfterS: 1,
    })
  }

  /** Large messages wait for their turns, as bodies do. */
  async #readInbox(): Promise<void> {
    if (this.#isReading) return
    this.#isReading = true
    for (let next = this.#inbox.shift(); next !== undefined; next = this.#inbox.shift()) {
      const { data, account } = next
      await this.#deps.bodyTurns.next(data.length, this.customerId)
      const event = this.#isClosing ? null : readClientEvent(data)
      if (event === null) {
        account.leave()
        continue
      }
      const { streamId } = event
      const common = { streamId, data, account }
      if ('refusal' in event) await this.#run(new ResponseLane(), { ...common, create: null, refusal: event.refusal })
      else await this.#enqueue({ ...common, create: event, refusal: null })
    }
    this.#isReading = false
    this.#endIfIdle()
  }

  async #enqueue(turn: Turn): Promise<void> {
    const lane = this.#laneOf(turn.streamId)
    if (lane === null) {
      await this.#run(new ResponseLane(), { ...turn, create: null, refusal: tooManyLanes() })
      return
    }
    lane.waiting.push(turn)
    this.#startWaiting()
  }

  #laneOf(streamId: string | null): ResponseLane | null {
    const known = this.#lanes.get(streamId)
    if (known !== undefined) return known
    const named = this.#lanes.size - (this.#lanes.has(null) ? 1 : 0)
    if (streamId !== null && named >= NAMED_LANES_MAX) return null
    const lane = new ResponseLane()
    this.#lanes.set(streamId, lane)
    return lane
  }

  #startWaiting(): void {
    for (const lane of this.#lanes.values()) {
      if (this.#running.size >= RUNNING_MAX) return
      if (lane.isRunning || this.#isClosing) continue
      const turn = lane.waiting.shift()
      if (turn !== undefined) void this.#run(lane, turn)
    }
  }

  async #run(lane: ResponseLane, turn: Turn): Promise<void> {
    const { serve, warmUp, onResponse } = this.#deps
    const response = new SocketResponse(this.#websocket, this.#socket, turn.streamId)
    lane.isRunning = true
    this.#running.add(response)
    noteRequest(this.#socket)
    const startedMs = performance.now()
    const conversation = new TurnConversation(turn, this.#keptAs(turn.create?.previousResponseId ?? null))
    const request = new SocketRequest(this.#handshake, turn.data.length, (limitBytes, memory) => {
      // The account of the request pays from here on.
      turn.account.leave()
      if (conversation.bytes > limitBytes) return Promise.reject(bodyTooLarge(limitBytes))
      return memory.take(conversation.bytes)
        ? Promise.resolve(conversation.stand)
        : Promise.reject(memoryUsedUp(memory))
    })
    const { dialect } = this.#deps
    const serveTurn = turn.create?.generates === false ? warmUp : serve
    await serveTurn({ ...dialect, parseRequest: () => conversation.parse(dialect) }, request, response)
    turn.account.leave()
    lane.isRunning = false
    this.#running.delete(response)
    noteAnswered(this.#socket)
    this.#keepAnswer(lane, response, conversation)
    const status = response.statusSent ?? CLIENT_CLOSED_REQUEST
    onResponse({ path: dialect.path, status, elapsedMs: performance.now() - startedMs })
    // The key was revoked after the handshake.
    if (status === 401) this.close(closeCodes.policy)
    this.#startWaiting()
    this.#endIfIdle()
  }

  /** The response may be the last one of any lane: another lane then begins with a copy of its conversation. */
  #keptAs(id: string | null): KeptResponse | null {
    if (id === null) return null
    return this.#lanes.values().find(({ kept }) => kept?.isListed && kept.id === id)?.kept ?? null
  }

  /** A failed continuation is forgotten in its own lane (Open Responses, WebSocket Continuation). */
  #keepAnswer(lane: ResponseLane, response: SocketResponse, { items, previous }: TurnConversation): void {
    const { kept } = this.#deps
    if (response.lastEvent === null || items === null) {
      if (previous !== null && previous === lane.kept && !this.#isClosing) this.#forget(lane)
      return
    }
    this.#forget(lane)
    if (this.#isClosing) return
    const event = JSON.parse(response.lastEvent) as { readonly response: { id: string; output: JsonObject[] } }
    const { id, output } = event.response
    lane.kept = new KeptResponse(id, this.customerId, joined(items, output))
    kept.keep(lane.kept)
    if (!lane.kept.isListed) lane.kept = null
  }

  #forget(lane: ResponseLane): void {
    if (lane.kept !== null) this.#deps.kept.forget(lane.kept)
    lane.kept = null
  }

  /** Sends an error that no request has caused. */
  #refuse(error: ApiError): void {
    if (this.#websocket.readyState !== this.#websocket.OPEN) return
    if (this.#websocket.bufferedAmount > UNREAD_REFUSALS_BYTES_MAX) {
      this.close(closeCodes.policy)
      return
    }
    const headers: HeaderList = Object.entries(errorHeaders(error)).flat()
    this.#websocket.send(errorEvent(error.row.status, errorBody(error), headers))
  }

  #refuseAndClose(error: ApiError, code: number): void {
    if (!this.#isClosing) this.#refuse(error)
    this.close(code)
  }

  #endIfIdle(): void {
    if (this.#ending === null || this.#isClosing || !this.isIdle) return
    const { code, error } = this.#ending
    if (error === null) this.close(code)
    else this.#refuseAndClose(error, code)
  }

  #onClose(): void {
    this.#isClosing = true
    this.#incoming.close()
    for (const response of this.#running) response.onGone()
    for (const { account } of this.#inbox.splice(0)) account.leave()
    for (const lane of this.#lanes.values()) {
      for (const { account } of lane.waiting.splice(0)) account.leave()
      this.#forget(lane)
    }
  }
}

const nothing = Buffer.alloc(0)

/** The conversation of one turn, while its request is read and served. */
class TurnConversation {
  readonly previous: KeptResponse | null
  /** The whole input; null until it is read, and if it was refused. */
  items: Buffer | null = null
  #turn: Turn | null
  /** Those of `previous`, which may be forgotten before the request is read. */
  #kept: Buffer | null
  readonly bytes: number

  constructor(turn: Turn, previous: KeptResponse | null) {
    this.#turn = turn
    this.previous = previous
    this.#kept = previous?.items ?? null
    this.bytes = turn.data.length + (previous?.items.length ?? 0)
  }

  /** The larger part stands for the body, whose length decides when the request may be read. */
  get stand(): Buffer {
    const kept = this.#kept ?? nothing
    const sent = this.#turn?.data ?? nothing
    return kept.length > sent.length ? kept : sent
  }

  /** Throws ApiError. Called once. */
  parse(dialect: ResponsesDialect): ReturnType<ResponsesDialect['readBody']> {
    const turn = this.#turn
    const kept = this.#kept
    // A long prompt must not stay in memory while its answer streams.
    this.#turn = null
    this.#kept = null
    if (!turn?.create) throw turn?.refusal ?? new ApiError('internal_error')
    const { previousResponseId, generates, body } = turn.create
    if (previousResponseId !== null && this.previous === null) throw notFound(previousResponseId)
    const { input, items, addedFrom } = continuedInput(kept, body.input)
    // A client may warm up before it has anything to say.
    const isEmpty = !generates && items.length === 0
    try {
      const job = dialect.readBody({ ...body, input: isEmpty ? '-' : input }, previousResponseId)
      this.items = items
      return job
    } catch (error) {
      throw error instanceof ApiError ? namedAsSent(error, addedFrom) : error
    }
  }
}

function notFound(id: string): ApiError {
  const shown = id.slice(0, 80)
  return new ApiError('previous_response_not_found', {
    message: `Previous response with id '${shown}' not found. Only the last response of a lane of this connection can be continued: send the whole conversation without previous_response_id.`,
    param: 'previous_response_id',
  })
}

function tooManyLanes(): ApiError {
  return new ApiError('invalid_value', {
    message: `This connection has ${NAMED_LANES_MAX} values of "stream_id", the most that it may have. Use one of them again, or open a new connection.`,
    param: 'stream_id',
  })
}

function ignore(): void {}
