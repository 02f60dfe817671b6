import { randomUUIDv7 } from 'node:crypto'
import { z } from 'zod'
import { type ChatQuote, chatQuoteSchema } from '../../api/chat-quote-schema.ts'
import type { Authenticator } from '../../auth/authenticator.ts'
import type { Completed } from '../../chat/complete.ts'
import { type OnceRequest, type Replayed, servedBy } from '../../chat/complete-once.ts'
import { chatCompletionSchema } from '../../dialects/chat/chat-completion-schema.ts'
import { parseChatRequest } from '../../dialects/chat/chat-request.ts'
import { chatRequestSchema } from '../../dialects/chat/chat-request-schema.ts'
import { encodeErrorChunk } from '../../dialects/chat/sse-encode.ts'
import { errorBody } from '../../dialects/error-body.ts'
import type { Caller } from '../../domain/caller.ts'
import type { ChatJob } from '../../domain/chat-job.ts'
import type { ApiError, ErrorCode } from '../../domain/errors.ts'
import { usdText } from '../../domain/money.ts'
import { Unserved } from '../../domain/upstream-failure.ts'
import type { WindowCounts } from '../../domain/windows.ts'
import { rateLimitHeaders, type WindowView } from '../../limits/window-view.ts'
import type { CancelSignal } from '../../runtime/cancel-signal.ts'
import type { Clock } from '../../runtime/clock.ts'
import { endOfTurn } from '../../runtime/end-of-turn.ts'
import { failpoint } from '../../runtime/failpoint.ts'
import type { Log } from '../../runtime/log.ts'
import { corsHeaderList } from '../cors.ts'
import type { GenerationEndpoint } from '../endpoint.ts'
import { EventStream } from '../event-stream.ts'
import type { GenerationResponse } from '../generation-exchange.ts'
import type { HeaderList, HeadersOf } from '../header-list.ts'
import { idempotencyKeyOf } from '../idempotency-key.ts'
import type { InFlight, Running } from '../in-flight.ts'
import { receiveBody } from '../receive-body.ts'
import { requireHost } from '../require-host.ts'
import { errorHeaders, isFault, toApiError } from '../respond-error.ts'

export interface ChatEndpointDeps {
  readonly complete: (caller: Caller, job: ChatJob, requestId: string, signal: CancelSignal) => Promise<Completed>
  /** The same for a request with an Idempotency-Key, which happens once. */
  readonly completeOnce: (request: OnceRequest, signal: CancelSignal) => Promise<Served>
  /** For `dry_run`. */
  readonly quote: (caller: Caller, job: ChatJob, requestId: string) => Promise<ChatQuote>
  readonly authenticate: Authenticator['authenticate']
  readonly windows: WindowView
  /** Told of each request that was refused for money. */
  readonly onRefused: (caller: Caller, code: ErrorCode) => void
  readonly inFlight: InFlight
  readonly bodyLimitBytes: number
  readonly log: Pick<Log, 'error' | 'debug'>
  readonly clock: Clock
  readonly pingMs: number
}

const chatHeadersSchema = z.object({
  'Idempotency-Key': z
    .string()
    .min(1)
    .max(255)
    .optional()
    .describe('A name for this request: sent again within 24 hours, it is answered again and not charged again.'),
})

const chatErrors: readonly ErrorCode[] = [
  'context_length_exceeded',
  'max_cost_too_low',
  'upstream_rejected',
  'insufficient_credits',
  'daily_spend_cap_reached',
  'key_spend_limit_reached',
  'in_flight_budget',
  'model_not_allowed',
  'model_not_found',
  'rate_limit_exceeded',
  'daily_limit_exceeded',
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

/** POST /v1/chat/completions. */
export function chatCompletions(deps: ChatEndpointDeps): GenerationEndpoint {
  return {
    method: 'POST',
    path: '/v1/chat/completions',
    access: 'key',
    doc: {
      operationId: 'createChatCompletion',
      tag: 'Chat',
      summary: 'Create a chat completion',
      headers: chatHeadersSchema,
      body: chatRequestSchema,
      errors: chatErrors,
      response: {
        contentType: 'application/json',
        schema: z.union([chatCompletionSchema, chatQuoteSchema]),
        description:
          'The completion, or with `stream: true` server-sent events of `chat.completion.chunk` objects ending with `data: [DONE]`; with `dry_run: true` a quote.',
      },
    },
    async serve(request, out) {
      const requestId = randomUUIDv7()
      const startedMs = deps.clock.monotonicMs()
      let caller: Caller | undefined
      let running: Running | undefined
      out.onceClosed(isComplete => {
        if (!isComplete) running?.abort('client_gone')
      })
      const headers: HeadersOf = (answerId = requestId) => {
        const counts = caller && deps.windows.current(caller)
        return counts instanceof Promise
          ? counts.then(known => headersWith(answerId, known))
          : headersWith(answerId, counts)
      }
      const headersWith = (answerId: string, counts: WindowCounts | undefined): HeaderList => {
        const list = ['x-request-id', answerId]
        if (request.header('origin') !== undefined) list.push(...corsHeaderList)
        if (counts) {
          const elapsedMs = deps.clock.monotonicMs() - startedMs
          list.push(...rateLimitHeaders(caller!.limits, counts, deps.clock.epochMs()))
          list.push('openai-processing-ms', String(Math.round(elapsedMs)))
        }
        // A gateway that stops wants no further request on this connection.
        if (deps.inFlight.isClosed) list.push('connection', 'close')
        return list
      }
      try {
        requireHost(request)
        const found = deps.authenticate(request.rawHeaders)
        caller = found instanceof Promise ? await found : found
        let body: Buffer | null = await receiveBody(request, deps.bodyLimitBytes)
        // The client may have left while its key was looked up.
        if (out.isClosed) return
        running = deps.inFlight.enter()
        if (running.refusal) throw running.refusal
        // Not before `enter`: who leaves while we wait is to be noticed.
        await new Promise<void>(endOfTurn)
        failpoint('chat-authenticated')
        const job = parseChatRequest(body)
        if (job.dryRun) return sendQuote(out, await deps.quote(caller, job, requestId), await headers())
        const key = idempotencyKeyOf(request)
        const completing: Promise<Served> =
          key === undefined
            ? deps.complete(caller, job, requestId, running.signal)
            : deps.completeOnce({ caller, job, body, requestId, key }, running.signal)
        // A long prompt is not to stay in memory for as long as its answer streams.
        body = null
        if (job.stream) {
          await sendStream(deps, { out, completing, headers, signal: running.signal })
        } else {
          const served = await completing
          sendWhole(out, served, await headers(replayedId(served)))
        }
        failpoint('answer-sent')
      } catch (thrown) {
        const error = toApiError(thrown)
        if (caller && error.row.status === 402) deps.onRefused(caller, error.code)
        if (isFault(error) && !running?.signal.aborted) {
          deps.log.error({ requestId, err: error.internal ?? thrown, code: error.code }, 'chat request failed')
          if (error instanceof Unserved && error.upstreamMessages.length > 0) {
            deps.log.debug({ requestId, upstreamMessages: error.upstreamMessages }, 'what the servers said')
          }
        }
        await sendError(out, error, headers)
      } finally {
        running?.leave()
      }
    },
  }
}

type Served = Completed | Replayed

function sendWhole(out: GenerationResponse, served: Served, headers: HeaderList): void {
  const { delivery } = served
  if (delivery.kind !== 'whole') throw new Error('a stream was made for a request that asked for none')
  headers.push(...jsonHeaders(delivery.body), ...servedByHeaders(served))
  headers.push('x-switchyard-cost-usd', usdText(delivery.costNanos))
  out.send(200, headers, delivery.body)
}

/** Once the status has left, all that can be said is that the answer breaks off. */
async function sendError(out: GenerationResponse, error: ApiError, headers: HeadersOf): Promise<void> {
  if (out.statusSent !== null || out.isClosed) return out.destroy()
  const body = errorBody(error)
  const all = await headers()
  all.push(...jsonHeaders(body), ...Object.entries(errorHeaders(error)).flat())
  // Node reads the rest of a refused body, for the 30 s of its `requestTimeout` at most. To close the connection of a 413 instead would send a reset,
  // at which nginx throws the answer away and takes this node for failed.
  out.send(error.row.status, all, body)
}

/** Also where a stream was asked for. */
function sendQuote(out: GenerationResponse, quote: ChatQuote, headers: HeaderList): void {
  const body = JSON.stringify(quote)
  headers.push(...jsonHeaders(body))
  out.send(200, headers, body)
}

interface StreamToSend {
  readonly out: GenerationResponse
  readonly completing: Promise<Served>
  readonly headers: HeadersOf
  readonly signal: CancelSignal
}

/**
 * Sends the status only when the first content is there, so that failures before it have their true status; after `pingMs` of
 * waiting the stream is opened with a comment instead, and failures become error chunks.
 */
async function sendStream(deps: ChatEndpointDeps, { out, completing, headers, signal }: StreamToSend): Promise<void> {
  const events = new EventStream(out, { pingMs: deps.pingMs, headers })
  try {
    const served = await completing
    const { delivery } = served
    if (delivery.kind !== 'stream') throw new Error('no stream was made for a request that asked for one')
    await events.open(servedByHeaders(served), replayedId(served)).catch(() => out.destroy())
    // Also when the socket is gone: only a stream that was begun settles its request.
    await delivery.sendTo(frames => {
      if (!events.write(frames)) return events.drained(signal)
    })
    events.end()
  } catch (thrown) {
    if (!events.isOpen) throw thrown
    // A ping may be opening it just now.
    await events.open([]).catch(() => out.destroy())
    events.write(encodeErrorChunk(toApiError(thrown)))
    events.end()
  } finally {
    events.stopPings()
  }
}

function jsonHeaders(body: string): HeaderList {
  return ['content-type', 'application/json; charset=utf-8', 'content-length', String(Buffer.byteLength(body))]
}

function servedByHeaders(served: Served): HeaderList {
  const isReplay = 'replayOf' in served
  const { provider, hosterId, maxTokens } = isReplay ? served.servedBy : servedBy(served)
  const list = ['x-switchyard-provider', provider]
  if (isReplay) list.push('idempotent-replayed', 'true')
  if (hosterId !== null) list.push('x-switchyard-hoster', hosterId)
  if (maxTokens !== null) list.push('x-switchyard-max-tokens', String(maxTokens))
  return list
}

/** The id of the request that the receipt is of, where it is an earlier one. */
function replayedId(served: Served): string | undefined {
  return 'replayOf' in served ? served.replayOf : undefined
}
