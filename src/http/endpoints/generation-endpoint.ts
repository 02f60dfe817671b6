import { createHash, randomUUIDv7 } from 'node:crypto'
import { z } from 'zod'
import type { AccountLimits, Caller } from '../../base/domain/caller.ts'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Envelope } from '../../base/domain/completion.ts'
import { ApiError, type ErrorCode } from '../../base/domain/errors.ts'
import { usdText } from '../../base/domain/money.ts'
import { Unserved } from '../../base/domain/upstream-failure.ts'
import type { WindowCounts } from '../../base/domain/windows.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import { type HeaderList, jsonHeaders } from '../../base/runtime/header-list.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Authenticator } from '../../identity/auth/authenticator.ts'
import type { WindowView } from '../../money/ledger/leases/rate-windows.ts'
import type { OnceRequest } from '../../request/chat/complete-once.ts'
import type { CompletionRequest, EventSink, Served } from '../../request/chat/completion-request.ts'
import type { InvalidRequests } from '../../request/limits/request-limits.ts'
import { type ChatQuote, chatQuoteSchema } from '../../wire/api/chat-quote-schema.ts'
import { createEnvelope } from '../../wire/dialects/chat/upstream-request.ts'
import type { ClientDialect } from '../../wire/dialects/client-dialect.ts'
import { errorBody } from '../../wire/dialects/openai-error-body.ts'
import type { AccessLog } from '../access-log.ts'
import type { AllowedHosts } from '../allowed-hosts.ts'
import { corsHeaderList } from '../cors.ts'
import type { GenerationEndpoint } from '../endpoint.ts'
import { EventStream, servedByHeaders } from '../event-stream.ts'
import type { GenerationRequest, GenerationResponse } from '../generation-exchange.ts'
import { CLIENT_CLOSED_REQUEST } from '../generation-routes.ts'
import type { InFlight, Running } from '../in-flight.ts'
import { type BodyTurns, receiveBody } from '../request-body.ts'
import { readIdempotencyKey, requestedJob, routingHeaders } from '../request-headers.ts'
import { errorHeaders, isFault, toApiError } from '../respond-error.ts'
import type { Telemetry } from '../telemetry/telemetry.ts'

/** Returns the generation endpoint of a dialect. */
export function generationEndpoint(deps: GenerationDeps, dialect: ClientDialect): GenerationEndpoint {
  const { operationId, tag, summary, description, body, answer, answerDescription, chunk, error } = dialect.operation
  const { pathParameters, query } = dialect.operation
  return {
    method: 'POST',
    path: dialect.path,
    access: 'key',
    doc: {
      operationId,
      tag,
      summary,
      description,
      ...(pathParameters && { pathParameters }),
      ...(query && { query }),
      headers: requestHeaders,
      body,
      errors: generationErrors,
      ...(dialect.errorBody !== errorBody && {
        error: { ...(error && { schema: error }), body: dialect.errorBody },
      }),
      response: {
        contentType: 'application/json',
        schema: z.union([answer, chatQuoteSchema]).meta({ examples: answer.meta()?.examples }),
        description: answerDescription,
        ...(chunk && { alternatives: [{ contentType: 'text/event-stream', schema: chunk }] }),
      },
    },
    serve: (request, response) =>
      serveGeneration(deps, dialect.ofTarget?.(request.target) ?? dialect, request, response),
  }
}

const requestHeaders = z.object({
  'Idempotency-Key': z
    .string()
    .min(1)
    .max(255)
    .optional()
    .describe(
      'A unique name for this request. A repeat within 24 hours gets the same answer and is not charged again.',
    ),
  ...routingHeaders,
})

const generationErrors: readonly ErrorCode[] = [
  'context_length_exceeded',
  'feature_not_supported',
  'max_cost_too_low',
  'upstream_rejected',
  'insufficient_credits',
  'daily_spend_cap_reached',
  'key_spend_limit_reached',
  'member_spend_limit_reached',
  'account_in_debt',
  'in_flight_budget',
  'model_not_allowed',
  'model_not_found',
  'rate_limit_exceeded',
  'daily_limit_exceeded',
  'too_many_concurrent_requests',
  'idempotency_key_in_use',
  'already_completed',
  'idempotency_key_reused',
  'all_hosters_failed',
  'no_eligible_offer',
  'upstream_unavailable',
  'stream_interrupted',
  'overloaded',
  'server_shutdown',
  'settlement_unavailable',
]

export interface GenerationDeps {
  readonly complete: (request: CompletionRequest, events: EventSink) => Promise<Served>
  /** Like `complete`, for a request with an Idempotency-Key. */
  readonly completeOnce: (request: OnceRequest, events: EventSink) => Promise<Served>
  /** Answers a request with `dry_run`. */
  readonly quote: (caller: Caller, job: ChatJob, requestId: string) => Promise<ChatQuote>
  readonly authenticate: Authenticator['authenticate']
  readonly windows: WindowView
  /** Called for each request that was refused for lack of money (402). */
  readonly onRefused: (caller: Caller, code: ErrorCode) => void
  /** Called for each error that a client gets. */
  readonly onError: (code: ErrorCode) => void
  readonly accessLog: Pick<AccessLog, 'begun' | 'ended'> | null
  /** Null: off. */
  readonly telemetry: Pick<Telemetry, 'begun' | 'asked' | 'ended'> | null
  readonly allowedHosts: AllowedHosts
  readonly inFlight: InFlight
  readonly bodyTurns: Pick<BodyTurns, 'next'>
  readonly invalidRequests: InvalidRequests
  readonly bodyLimitBytes: number
  readonly log: Pick<Log, 'error' | 'debug'>
  readonly clock: Clock
  readonly pingMs: number
}

/**
 * Serves one request of a generation endpoint, whatever dialect its client speaks. Always answers and never
 * rejects.
 */
export function serveGeneration(
  deps: GenerationDeps,
  dialect: ClientDialect,
  request: GenerationRequest,
  response: GenerationResponse,
): Promise<void> {
  return new GenerationCall(deps, dialect, request, response).serve()
}

class GenerationCall {
  readonly #deps: GenerationDeps
  readonly #dialect: ClientDialect
  readonly #request: GenerationRequest
  readonly #response: GenerationResponse
  readonly #requestId = randomUUIDv7()
  readonly #startedMs: number
  /** Null: the request has no trace. */
  #traceId: string | null = null
  #caller: Caller | undefined
  #running: Running | undefined
  #errorCode: ErrorCode | null = null
  /** Whether the body was read and parsed. From then on, the rate windows count the request. */
  #isValid = false

  constructor(deps: GenerationDeps, dialect: ClientDialect, request: GenerationRequest, response: GenerationResponse) {
    this.#deps = deps
    this.#dialect = dialect
    this.#request = request
    this.#response = response
    this.#startedMs = deps.clock.monotonicMs()
    deps.accessLog?.begun(this.#requestId)
    response.onceClosed(isComplete => {
      if (!isComplete) this.#running?.abort('client_gone')
    })
  }

  async serve(): Promise<void> {
    try {
      const { allowedHosts, inFlight, bodyTurns, invalidRequests, authenticate, bodyLimitBytes } = this.#deps
      allowedHosts.require(this.#request)
      const authenticated = authenticate(this.#request.rawHeaders)
      const caller = authenticated instanceof Promise ? await authenticated : authenticated
      this.#caller = caller
      this.#beginTrace()
      invalidRequests.refuseExcess(caller)
      const running = inFlight.open(caller.customerId)
      this.#running = running
      let body: Buffer | null = await receiveBody(this.#request, bodyLimitBytes, running.memory)
      // The client may have disconnected while its key was looked up.
      if (this.#response.isClosed) return
      const refusal = running.start(this.#response.connectedMs)
      if (refusal !== null) throw refusal
      // After `start`, so that a client that disconnects during the wait is noticed.
      await bodyTurns.next(body.length, caller.customerId)
      failpoint('chat-authenticated')
      const job = requestedJob(this.#dialect.parseRequest(body), this.#request, caller)
      this.#deps.telemetry?.asked(this.#requestId, job)
      const key = readIdempotencyKey(this.#request)
      const bodyHash = key === undefined ? null : this.#hashRequest(body)
      // A long prompt must not stay in memory while its answer streams.
      body = null
      this.#isValid = true
      const { signal, memory } = running
      const common = { caller, job, requestId: this.#requestId, dialect: this.#dialect, signal, memory }
      if (job.dryRun) await this.#sendQuote(caller, job)
      else if (key === undefined || bodyHash === null) await this.#answer(common, this.#deps.complete)
      else await this.#answer({ ...common, key, bodyHash }, this.#deps.completeOnce)
      failpoint('answer-sent')
    } catch (thrown) {
      await this.#refuse(thrown)
    } finally {
      this.#running?.leave(this.#response.unread)
      this.#noteEnd()
    }
  }

  /**
   * Hashes the request that an Idempotency-Key identifies. The path and the routing headers are included, because they
   * change the meaning of the body.
   */
  #hashRequest(body: Buffer): Buffer {
    const hash = createHash('sha256').update(this.#dialect.path).update(body)
    const { switchyardHeaders } = this.#request
    return (switchyardHeaders === null ? hash : hash.update(JSON.stringify(switchyardHeaders))).digest()
  }

  #answer<R extends CompletionRequest>(
    request: R,
    complete: (request: R, events: EventSink) => Promise<Served>,
  ): Promise<void> {
    return request.job.stream ? this.#answerStream(request, complete) : this.#answerWhole(request, complete)
  }

  async #answerWhole<R>(request: R, complete: (request: R, events: EventSink) => Promise<Served>): Promise<void> {
    const { servedBy, replayOf, whole } = await complete(request, noEvents)
    if (whole === null) throw new Error('a request for a whole answer was answered with a stream')
    const headers = await this.#headers(replayOf)
    headers.push(...jsonHeaders(whole.body), ...servedByHeaders(servedBy, replayOf))
    headers.push('x-switchyard-cost-usd', usdText(whole.costNanos))
    this.#response.send(200, headers, whole.body)
  }

  /**
   * The status is sent with the first content, so a failure before it has its true status. After `pingMs` of
   * waiting, the stream is opened with a comment instead, and a failure becomes the last event.
   */
  async #answerStream<R extends CompletionRequest>(
    request: R,
    complete: (request: R, events: EventSink) => Promise<Served>,
  ): Promise<void> {
    const { stream } = this.#dialect
    const events = new EventStream(this.#response, {
      pingMs: this.#deps.pingMs,
      ping: stream.ping,
      contentType: stream.contentType,
      headers: answerId => this.#headers(answerId),
      signal: request.signal,
    })
    try {
      await complete(request, events)
      events.end()
    } catch (thrown) {
      if (!events.isOpen) throw thrown
      const error = toApiError(thrown)
      this.#noteError(error.code)
      await events.endWith(stream.encoder(this.#envelope(request.job), request.job).fail(error))
    } finally {
      events.stopPings()
    }
  }

  /** Returns the identity of an answer that failed before a server gave it one. */
  #envelope({ model }: ChatJob): Envelope {
    return createEnvelope({ requestId: this.#requestId, startedAtEpochMs: this.#deps.clock.epochMs() }, model)
  }

  /** Sends the quote as a whole answer, even when a stream was requested. */
  async #sendQuote(caller: Caller, job: ChatJob): Promise<void> {
    const body = JSON.stringify(await this.#deps.quote(caller, job, this.#requestId))
    const headers = await this.#headers()
    headers.push(...jsonHeaders(body))
    this.#response.send(200, headers, body)
  }

  async #refuse(thrown: unknown): Promise<void> {
    const { inFlight, onRefused, invalidRequests, log } = this.#deps
    const error = toApiError(thrown)
    this.#noteError(error.code)
    const ids = { requestId: this.#requestId, traceId: this.#traceId ?? undefined }
    if (this.#caller && error.row.status === 402) onRefused(this.#caller, error.code)
    if (this.#caller && !this.#isValid && isCallersFault(error)) invalidRequests.note(this.#caller)
    if (isFault(error) && !this.#running?.signal.aborted) {
      log.error({ ...ids, err: error.internal ?? thrown, code: error.code }, 'generation request failed')
      if (error instanceof Unserved && error.upstreamMessages.length > 0)
        log.debug({ ...ids, upstreamMessages: error.upstreamMessages }, 'upstream error messages')
    }
    // Another gateway may have a server, and a proxy sends what got a 503 there.
    const isWithoutServer = error.code === 'all_hosters_failed' || error.code === 'no_eligible_offer'
    await this.#sendError(isWithoutServer && inFlight.isClosed ? new ApiError('server_shutdown') : error)
  }

  /** Not before the caller is known: requests without a key would fill the queue of spans. */
  #beginTrace(): void {
    const { telemetry, clock } = this.#deps
    if (telemetry === null) return
    const startedAtMs = clock.epochMs() - (clock.monotonicMs() - this.#startedMs)
    this.#traceId = telemetry.begun(this.#requestId, this.#dialect.path, this.#request.rawHeaders, startedAtMs)
  }

  #noteError(code: ErrorCode): void {
    this.#errorCode = code
    this.#deps.onError(code)
  }

  #noteEnd(): void {
    const { accessLog, telemetry } = this.#deps
    if (accessLog === null && telemetry === null) return
    const ended = {
      requestId: this.#requestId,
      traceId: this.#traceId,
      path: this.#dialect.path,
      caller: this.#caller,
      status: this.#response.statusSent ?? CLIENT_CLOSED_REQUEST,
      code: this.#errorCode,
      elapsedMs: this.#deps.clock.monotonicMs() - this.#startedMs,
    }
    accessLog?.ended(ended)
    telemetry?.ended(ended)
  }

  async #sendError(error: ApiError): Promise<void> {
    const response = this.#response
    // Once the status has been sent, closing the connection is the only way to report a failure.
    if (response.statusSent !== null || response.isClosed) return response.destroy()
    const body = this.#dialect.errorBody(error, this.#requestId)
    const headers = await this.#headers()
    headers.push(...jsonHeaders(body), ...Object.entries(errorHeaders(error)).flat())
    // Node reads the rest of a refused body for at most the 30 s of its `requestTimeout`. Closing the
    // connection of a 413 instead would send a reset, and nginx would discard the answer and mark this node as
    // failed.
    response.send(error.row.status, headers, body)
  }

  /**
   * Builds the headers that every response has. `answerId`: the id of the earlier request, if its answer is repeated.
   */
  #headers(answerId: string = this.#requestId): HeaderList | Promise<HeaderList> {
    const counts = this.#caller && this.#deps.windows.current(this.#caller, this.#isValid)
    if (counts instanceof Promise) return counts.then(resolved => this.#headersWith(answerId, resolved))
    return this.#headersWith(answerId, counts)
  }

  #headersWith(answerId: string, counts: Awaited<ReturnType<WindowView['current']>> | undefined): HeaderList {
    const { clock, inFlight } = this.#deps
    const { requestIdHeader } = this.#dialect
    const headers = ['x-request-id', answerId]
    if (requestIdHeader !== undefined) headers.push(requestIdHeader, answerId)
    if (this.#traceId !== null) headers.push('x-switchyard-trace-id', this.#traceId)
    if (this.#request.header('origin') !== undefined) headers.push(...corsHeaderList)
    if (counts) {
      const elapsedMs = clock.monotonicMs() - this.#startedMs
      headers.push(...rateLimitHeaders(this.#caller!.limits, counts, clock.epochMs()))
      headers.push('openai-processing-ms', String(Math.round(elapsedMs)))
    }
    // The next request on a kept connection would come to a gateway that is shutting down.
    if (inFlight.isClosing) headers.push('connection', 'close')
    return headers
  }
}

/**
 * Returns names and values in turn: OpenAI's headers for the minute and the same with `-day` for the day.
 * Reset values are seconds with an `s`.
 */
export function rateLimitHeaders(limits: AccountLimits, counts: WindowCounts, nowMs: number): string[] {
  const list: string[] = []
  list.push('x-ratelimit-limit-requests', String(limits.requestsPerMinute))
  list.push('x-ratelimit-remaining-requests', String(Math.max(0, limits.requestsPerMinute - counts.minuteUsed)))
  list.push('x-ratelimit-reset-requests', resetText(counts.minuteEndsAtEpochMs, nowMs))
  list.push('x-ratelimit-limit-requests-day', String(limits.requestsPerDay))
  list.push('x-ratelimit-remaining-requests-day', String(Math.max(0, limits.requestsPerDay - counts.dayUsed)))
  list.push('x-ratelimit-reset-requests-day', resetText(counts.dayEndsAtEpochMs, nowMs))
  return list
}

function resetText(epochMs: number, nowMs: number): string {
  return `${Math.max(0, Math.ceil((epochMs - nowMs) / 1000))}s`
}

/** Whether the request was wrong: 400, 413 or 415, and not refused by a limit. */
function isCallersFault({ row: { status } }: ApiError): boolean {
  return status >= 400 && status < 500 && status !== 429
}

const noEvents: EventSink = {
  open: () => Promise.reject(new Error('a request for a whole answer opened a stream')),
  write: () => Promise.reject(new Error('a request for a whole answer wrote a stream')),
}
