import { type ChatJob, expectedInputTokens, fitOf, shareFits } from '../../base/domain/chat-job.ts'
import type { Envelope } from '../../base/domain/completion.ts'
import type { Answer, Attempt, DataAnswer, Plan, StreamAnswer, Ticket, WholeAnswer } from '../../base/domain/handoff.ts'
import type { CustomerBreakers, Health } from '../../base/domain/health.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { outputCap } from '../../base/domain/request-bounds.ts'
import { Cancelled, UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import type { ByteAccount } from '../../base/runtime/counted-memory.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import { chatReader } from '../../wire/dialects/chat/chat-reader.ts'
import { type ExpectedAnswer, judgeCompletion } from '../../wire/dialects/chat/finish.ts'
import { createEnvelope } from '../../wire/dialects/chat/upstream-request.ts'
import { clientCalls, withClientNames } from '../../wire/dialects/fit/client-names.ts'
import { nativeTask } from '../../wire/dialects/native-task.ts'
import type { AnswerReader, UpstreamTask } from '../../wire/dialects/upstream-task.ts'
import { upstreamTasks } from '../../wire/dialects/upstream-tasks.ts'
import { rejectUnreadable } from '../../wire/upstreams/response-parser.ts'
import type { UpstreamClient, UpstreamRequest } from '../../wire/upstreams/upstream-client.ts'
import type { UpstreamExchange } from '../../wire/upstreams/upstream-exchange.ts'
import { AttemptLog, attemptLimits, identify, isContextTooSmall } from './attempt.ts'
import { attemptFailure, streamFailure } from './attempt-failure.ts'
import { classifyResponse } from './classify-response.ts'
import { openStream } from './open-stream.ts'
import type { Pseudonymise } from './pseudonyms.ts'
import type { RetryBudget } from './retry-budget.ts'
import { abortedError, cancelledError, failedError, rejectedError } from './unserved-errors.ts'

export interface DispatchDeps {
  readonly upstream: UpstreamClient
  readonly health: CustomerBreakers
  readonly clock: Clock
  /** The maximum number of servers to try for one model, including the first. */
  readonly attemptsMax: number
  readonly retryBudget: RetryBudget
  readonly pseudonymise: Pseudonymise
  /** Called with the time for which writing the request for a server held the event loop. */
  readonly noteWork: (customerId: string, workMs: number) => void
  /** Called before a hoster is sent a request of a customer that shares its requests. */
  readonly noteShared?: (customerId: string, job: ChatJob, hosterId: string) => void
}

/** What one request has of this node; `memory` pays for the answer. */
export interface RequestResources {
  readonly signal: CancelSignal
  readonly memory: ByteAccount
}

/** With less time left than this, an attempt would certainly time out. */
const REMAINING_MS_MIN = 50

/**
 * Tries the offers of the plan in order until one gives its first content. Failing over is silent, because the
 * client has seen nothing until then; after the first content it is no longer possible. All attempts share one
 * deadline: the longest total time limit among the offers. Each leaves time for the next (`attemptLimits`).
 *
 * Throws Unserved: `upstream_rejected` when an upstream rejects the request itself, `context_length_exceeded` when the
 * last one rejects the prompt as too long, `all_hosters_failed` when no offer is left, `overloaded` when the memory is
 * used up, and the reason of `signal` when it is aborted.
 */
export async function dispatch(
  deps: DispatchDeps,
  plan: Plan,
  job: ChatJob,
  { signal, memory }: RequestResources,
): Promise<Answer> {
  const { clock, attemptsMax, retryBudget, pseudonymise, noteWork, noteShared } = deps
  const { customerId, sharesRequests } = plan.ticket.caller
  const health = deps.health.of(customerId)
  const deadlineMs = clock.monotonicMs() + Math.max(0, ...plan.offers.map(offer => offer.endpoint.timeouts.totalMs))
  const inputTokens = expectedInputTokens(job)
  const log = new AttemptLog({ attemptsMax, retryBudget, health })
  const { attempts } = log
  for (const [index, offer] of plan.offers.entries()) {
    const startedMs = clock.monotonicMs()
    const remainingMs = deadlineMs - startedMs
    if (signal.aborted || remainingMs < REMAINING_MS_MIN) break
    if (!log.begin(offer)) continue
    const { endpoint, modelId } = offer
    const task = offer.speaks === undefined ? upstreamTasks[job.task] : nativeTask(job, offer)
    const maxTokens = outputCap(offer, job, plan.ticket.maxTokens)
    const sentJob = pseudonymise(job, endpoint, customerId)
    const body = task.requestBody(sentJob, offer, maxTokens)
    if (sentJob !== job) shareFits(sentJob, job)
    noteWork(customerId, clock.monotonicMs() - startedMs)
    const bounds = task.bounds(job, maxTokens)
    const reader = task.reader?.(job, offer) ?? chatReader
    const hasNext = log.hasNext(plan.offers, index)
    // Only while another server can be tried: a slow answer is better than none. Local servers may load the model
    // first.
    const p95Ms = hasNext && isHoster(offer) ? health.firstTokenP95Ms(offer.offerId, inputTokens) : null
    const limits = attemptLimits(endpoint.timeouts, { stream: job.stream, maxTokens }, remainingMs, hasNext, p95Ms)
    const attempt: AttemptContext = {
      ticket: plan.ticket,
      offer,
      health,
      request: {
        endpoint,
        customerId,
        upstreamModel: offer.upstreamModel,
        path: typeof task.path === 'string' ? task.path : task.path(offer, job.stream),
        headers: task.headers,
        requestHeaders: task.requestHeaders?.(job),
        body,
        stream: job.stream,
        limits,
        signal,
        memory,
        bytesMax: bounds.wholeBytes,
      },
      reader: mayCall(job) ? withClientNames(reader, clientCalls(job, fitOf(job, offer))) : reader,
      envelope: createEnvelope(plan.ticket, modelId),
      expected: {
        choices: job.choices,
        hasStop: job.hasStop,
        maxTokens,
        bounds,
        hidesReasoning: endpoint.dialect.hidesReasoning,
      },
      startedMs,
      inputTokens,
      attempts,
    }
    if (sharesRequests && endpoint.hosterId !== null) noteShared?.(customerId, job, endpoint.hosterId)
    failpoint('dispatch-before-send')
    try {
      if (task.readData !== null) return await tryData(deps, attempt, job, task.readData)
      return await (job.stream ? tryStream(deps, attempt) : tryWhole(deps, attempt))
    } catch (failure) {
      if (!(failure instanceof UpstreamFailure)) throw failure
      log.add(offer, failure, clock.monotonicMs() - startedMs)
      if (failure instanceof Cancelled) throw cancelledError(failure, signal, attempts)
      if (failure.outcome !== 'request_rejected') noteFailure(attempt, failure)
      else if (!isContextTooSmall(failure)) throw rejectedError(failure, attempts)
    }
  }
  if (signal.aborted) throw abortedError(signal, attempts)
  throw failedError(plan.offers, log)
}

/** Whether the model may call tools. */
function mayCall({ forward }: ChatJob): boolean {
  return forward.tools !== undefined || forward.functions !== undefined
}

interface AttemptContext {
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

function noteFailure({ health, offer, request, ticket, startedMs }: AttemptContext, failure: UpstreamFailure): void {
  const shown = attemptFailure(failure, ticket, { body: request.body, names: [offer.upstreamModel, offer.modelId] })
  health.recordFailure(offer.offerId, failure.outcome, failure.retryAfterS, startedMs, shown)
}

async function tryWhole({ upstream, clock }: DispatchDeps, attempt: AttemptContext): Promise<WholeAnswer> {
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
async function tryData(
  { upstream, clock }: DispatchDeps,
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
async function tryStream({ upstream, clock }: DispatchDeps, attempt: AttemptContext): Promise<StreamAnswer> {
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
          const sample = { firstTokenMs, totalMs: elapsedMs(), outputTokens: usage?.completion_tokens, inputTokens }
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

function withAttempts<Part extends object>(attempt: AttemptContext, firstTokenMs: number, answer: Part) {
  const { offer, envelope, attempts } = attempt
  const last: Attempt = { ...identify(offer), outcome: 'answered', elapsedMs: Math.round(firstTokenMs) }
  return { ...answer, offer, envelope, firstTokenMs, attempts: [...attempts, last] }
}

const isHoster = ({ endpoint }: Offer) => endpoint.kind === 'hoster'
