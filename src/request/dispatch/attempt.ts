import type { AnswerEvent } from '../../base/domain/answer-event.ts'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Envelope } from '../../base/domain/completion.ts'
import type { Attempt, DataAnswer, StreamAnswer, Ticket, WholeAnswer } from '../../base/domain/handoff.ts'
import type { Health } from '../../base/domain/health.ts'
import type { Offer, Timeouts } from '../../base/domain/offer.ts'
import { Cancelled, type UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { answerToCompletion } from '../../wire/dialects/chat/answer-to-completion.ts'
import { ChunkDecoder } from '../../wire/dialects/chat/chunk-decoder.ts'
import { type ExpectedAnswer, judgeCompletion } from '../../wire/dialects/chat/finish.ts'
import type { AnswerReader, UpstreamTask } from '../../wire/dialects/upstream-task.ts'
import type { ExchangeLimits } from '../../wire/upstreams/exchange-request.ts'
import { rejectUnreadable } from '../../wire/upstreams/response-parser.ts'
import type { UpstreamClient, UpstreamRequest } from '../../wire/upstreams/upstream-client.ts'
import type { UpstreamExchange } from '../../wire/upstreams/upstream-exchange.ts'
import { attemptFailure, streamFailure } from './attempt-failure.ts'
import { identify } from './attempt-log.ts'
import { classifyResponse } from './classify-response.ts'
import { openStream } from './open-stream.ts'

// One attempt: its time limits, the answer that it reads, and what the health of the offer learns from it.

export interface AttemptDeps {
  readonly upstream: UpstreamClient
  readonly clock: Clock
}

export interface AttemptContext {
  readonly ticket: Ticket
  readonly offer: Offer
  readonly health: Health
  readonly request: UpstreamRequest
  readonly reader: AnswerReader
  readonly envelope: Envelope
  readonly expected: ExpectedAnswer
  readonly startedMs: number
  /** The likely length of the prompt. */
  readonly inputTokens: number
  /** The attempts before this one. */
  readonly attempts: readonly Attempt[]
}

/** Records a failure before the first content. */
export function noteFailure(
  { health, offer, request, ticket, startedMs }: AttemptContext,
  failure: UpstreamFailure,
): void {
  const shown = attemptFailure(failure, ticket, { body: request.body, names: [offer.upstreamModel, offer.modelId] })
  health.recordFailure(offer.offerId, failure.outcome, failure.retryAfterS, startedMs, shown)
}

export async function tryWhole({ upstream, clock }: AttemptDeps, attempt: AttemptContext): Promise<WholeAnswer> {
  const { startedMs, health, reader, envelope, expected, inputTokens } = attempt
  const { offerId } = attempt.offer
  health.beginRequest(offerId)
  try {
    const completion = reader.whole(textOf(await upstream.send(attempt.request)), envelope, expected)
    const totalMs = clock.monotonicMs() - startedMs
    const outputTokens = completion.usage?.completion_tokens
    if (isHoster(attempt.offer) && judgeCompletion(completion, expected) === 'suspect') {
      health.recordFailure(offerId, 'empty', undefined, startedMs)
    } else {
      health.recordSuccess(offerId, { firstTokenMs: totalMs, totalMs, outputTokens, inputTokens }, startedMs)
    }
    return withAttempts(attempt, totalMs, { kind: 'whole', completion })
  } finally {
    health.endRequest(offerId)
  }
}

/** Returns the body of an answer with status 200. Throws UpstreamFailure. */
function textOf({ head, text }: UpstreamExchange): string {
  if (head.status !== 200) throw classifyResponse(head, text)
  rejectUnreadable(head)
  return text
}

/** Tries a request of a task that generates no text: the answer is computed from the input. */
export async function tryData(
  { upstream, clock }: AttemptDeps,
  attempt: AttemptContext,
  job: ChatJob,
  readData: NonNullable<UpstreamTask['readData']>,
): Promise<DataAnswer> {
  const { startedMs, health, envelope, expected } = attempt
  const { offerId } = attempt.offer
  health.beginRequest(offerId)
  try {
    const data = await readData(textOf(await upstream.send(attempt.request)), job, envelope, expected.bounds)
    // The answer of the server and the one for the client are in memory together.
    if (!attempt.request.memory.take(data.body.length)) throw new Cancelled('memory_used_up', true)
    const totalMs = clock.monotonicMs() - startedMs
    health.recordSuccess(offerId, { firstTokenMs: totalMs, totalMs }, startedMs)
    return withAttempts(attempt, totalMs, { kind: 'data', ...data })
  } finally {
    health.endRequest(offerId)
  }
}

/**
 * Tries a streamed request. It counts as in flight at the offer until the answer has ended, long after this
 * function returns.
 */
export async function tryStream({ upstream, clock }: AttemptDeps, attempt: AttemptContext): Promise<StreamAnswer> {
  const { startedMs, health, inputTokens, ticket } = attempt
  const { offerId } = attempt.offer
  const mayBeSuspect = isHoster(attempt.offer)
  // Must not capture `attempt`: its request body would stay in memory while the answer streams.
  const elapsedMs = () => clock.monotonicMs() - startedMs
  let firstTokenMs = 0
  health.beginRequest(offerId)
  try {
    const chunks = await openStream(upstream, attempt, {
      onContent: () => {
        firstTokenMs = elapsedMs()
        health.noteContent(offerId)
      },
      onEnd: (ending, usage) => {
        health.endRequest(offerId, true)
        if (ending === 'suspect' && mayBeSuspect) {
          health.recordFailure(offerId, 'empty', undefined, startedMs)
        } else if (ending === 'complete' || ending === 'suspect') {
          // 0: the gateway ended the answer before the server counted it.
          const outputTokens = usage?.completion_tokens || undefined
          const sample = { firstTokenMs, totalMs: elapsedMs(), outputTokens, inputTokens }
          health.recordSuccess(offerId, sample, startedMs)
        } else if (ending === 'left' || ending instanceof Cancelled) {
          health.recordSuccess(offerId, { firstTokenMs, inputTokens }, startedMs)
        } else {
          // A server that rejects a request after it has begun to answer is at fault, not the caller.
          const outcome = ending.outcome === 'request_rejected' ? 'server_error' : ending.outcome
          health.recordFailure(offerId, outcome, ending.retryAfterS, startedMs, streamFailure(ending, ticket))
        }
      },
    })
    return withAttempts(attempt, firstTokenMs, { kind: 'stream', chunks })
  } catch (failure) {
    health.endRequest(offerId)
    throw failure
  }
}

/** Tries a whole request whose answer is read from a stream. */
export async function tryGathered({ upstream, clock }: AttemptDeps, attempt: AttemptContext): Promise<WholeAnswer> {
  const { startedMs, health, inputTokens, envelope } = attempt
  const { memory } = attempt.request
  const { offerId } = attempt.offer
  const decoder = new ChunkDecoder()
  const events: AnswerEvent[] = []
  let firstTokenMs: number | undefined
  health.beginRequest(offerId)
  try {
    const chunks = await openStream(upstream, attempt, {
      onContent: () => {
        firstTokenMs = clock.monotonicMs() - startedMs
        health.noteContent(offerId)
      },
      onEnd: () => {},
    })
    await chunks.read(parts => {
      for (const event of parts.flatMap(part => decoder.push(part))) {
        if ('text' in event && !memory.take(event.text.length * 2)) throw new Cancelled('memory_used_up', true)
        events.push(event)
      }
    })
    const totalMs = clock.monotonicMs() - startedMs
    const completion = answerToCompletion(events, envelope)
    const outputTokens = completion.usage?.completion_tokens || undefined
    health.recordSuccess(
      offerId,
      { firstTokenMs: firstTokenMs ?? totalMs, totalMs, outputTokens, inputTokens },
      startedMs,
    )
    return withAttempts(attempt, totalMs, { kind: 'whole', completion })
  } finally {
    health.endRequest(offerId, firstTokenMs !== undefined)
  }
}

function withAttempts<Part extends object>(attempt: AttemptContext, firstTokenMs: number, answer: Part) {
  const { offer, envelope, attempts } = attempt
  const last: Attempt = { ...identify(offer), outcome: 'answered', elapsedMs: Math.round(firstTokenMs) }
  return { ...answer, offer, envelope, firstTokenMs, attempts: [...attempts, last] }
}

export const isHoster = ({ endpoint }: Offer) => endpoint.kind === 'hoster'

/**
 * Returns the time limits of one attempt. `remainingMs`: the time that is left for the request. `hasNext`: another
 * offer can be tried after this one. Then the attempt may use half of the remaining time, so that a server that
 * never answers leaves time for the next. `firstTokenP95Ms`: what 95% of the streams of this server stay below; null
 * to wait as long as the time-out allows.
 */
export function attemptLimits(
  timeouts: Timeouts,
  { stream, maxTokens }: { readonly stream: boolean; readonly maxTokens: number },
  remainingMs: number,
  hasNext: boolean,
  firstTokenP95Ms: number | null = null,
): ExchangeLimits {
  const { connectMs, tokenMs, idleMs } = timeouts
  const firstTokenMs = Math.min(timeouts.firstTokenMs, usualLimitMs(firstTokenP95Ms))
  const totalMs = Math.min(timeouts.totalMs, remainingMs)
  const answerMs = hasNext ? Math.min(totalMs, remainingMs / 2) : totalMs
  // The first content of a stream ends the choice of a server, and the rest may take the whole time.
  if (stream) {
    const thinking = timeouts.thinkingMs === undefined ? {} : { thinkingMs: Math.min(timeouts.thinkingMs, answerMs) }
    return { connectMs, firstByteMs: Math.min(firstTokenMs, answerMs), ...thinking, idleMs, totalMs }
  }
  // Without streaming, the first byte comes after the last token.
  const firstByteMs = Math.min(firstTokenMs + maxTokens * tokenMs, answerMs)
  return { connectMs, firstByteMs, idleMs, totalMs: answerMs }
}

function usualLimitMs(firstTokenP95Ms: number | null): number {
  return firstTokenP95Ms === null ? Infinity : Math.max(USUAL_MS_MIN, USUAL_TIMES * firstTokenP95Ms)
}

/**
 * Three times what 95% of its streams need is a fault, and not a slow moment. Short times vary more, so nobody waits
 * less than five seconds.
 */
const USUAL_TIMES = 3
const USUAL_MS_MIN = 5_000
