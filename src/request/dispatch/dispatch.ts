import type { AttemptTraces } from '../../base/domain/attempt-traces.ts'
import { type ChatJob, expectedInputTokens, fitOf, shareFits } from '../../base/domain/chat-job.ts'
import type { Answer, Plan } from '../../base/domain/handoff.ts'
import type { CustomerBreakers } from '../../base/domain/health.ts'
import type { Offer } from '../../base/domain/offer.ts'
import { asksForMedia, outputCap } from '../../base/domain/request-bounds.ts'
import { Cancelled, UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import type { ByteAccount } from '../../base/runtime/counted-memory.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import { chatReader } from '../../wire/dialects/chat/chat-reader.ts'
import { createEnvelope } from '../../wire/dialects/chat/upstream-request.ts'
import type { CheckTime } from '../../wire/dialects/fit/check-time.ts'
import { withSchemaCheck } from '../../wire/dialects/fit/checked-answer.ts'
import { clientCalls, withClientNames } from '../../wire/dialects/fit/client-names.ts'
import { withStops } from '../../wire/dialects/fit/stopped-answer.ts'
import { nativeTask } from '../../wire/dialects/native-task.ts'
import type { AnswerReader, UpstreamTask } from '../../wire/dialects/upstream-task.ts'
import { upstreamTasks } from '../../wire/dialects/upstream-tasks.ts'
import {
  type AttemptContext,
  type AttemptDeps,
  attemptLimits,
  isHoster,
  noteFailure,
  tryData,
  tryGathered,
  tryStream,
  tryWhole,
} from './attempt.ts'
import { AttemptLog, isContextTooSmall, type RetryBudget } from './attempt-log.ts'
import type { Pseudonymise } from './pseudonyms.ts'
import { abortedError, cancelledError, failedError, rejectedError } from './unserved-errors.ts'

export interface DispatchDeps extends AttemptDeps {
  readonly health: CustomerBreakers
  /** The maximum number of servers to try for one model, including the first. */
  readonly attemptsMax: number
  readonly retryBudget: RetryBudget
  readonly pseudonymise: Pseudonymise
  /** Called with the time for which writing the request for a server held the event loop. */
  readonly noteWork: (customerId: string, workMs: number) => void
  readonly checkTime: CheckTime
  /** Called before a hoster is sent a request of a customer that shares its requests. */
  readonly noteShared?: (customerId: string, job: ChatJob, hosterId: string) => void
  /** Absent: telemetry is off. */
  readonly traces?: AttemptTraces
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
  const { clock, attemptsMax, retryBudget, pseudonymise, noteWork, noteShared, traces } = deps
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
    const sentJob = endpoint.hosterId === null ? job : pseudonymise(job, endpoint.hosterId, customerId)
    const body = writeBody(task, job, sentJob, offer, maxTokens)
    const stream = job.stream || mustGather(job, offer)
    noteWork(customerId, clock.monotonicMs() - startedMs)
    const bounds = task.bounds(job, maxTokens)
    const hasNext = log.hasNext(plan.offers, index)
    // Only while another server can be tried: a slow answer is better than none. Local servers may load the model
    // first.
    const p95Ms = hasNext && isHoster(offer) ? health.firstTokenP95Ms(offer.offerId, inputTokens) : null
    const limits = attemptLimits(endpoint.timeouts, { stream, maxTokens }, remainingMs, hasNext, p95Ms)
    const attempt: AttemptContext = {
      ticket: plan.ticket,
      offer,
      health,
      request: {
        endpoint,
        customerId,
        upstreamModel: offer.upstreamModel,
        path: typeof task.path === 'string' ? task.path : task.path(offer, stream),
        headers: task.headers,
        requestHeaders: linesOf(task.requestHeaders?.(job), traces?.attempted(plan.ticket.requestId, offer, job)),
        body,
        stream,
        limits,
        signal,
        memory,
        bytesMax: bounds.wholeBytes,
      },
      reader: readerFor(deps, task, job, offer, customerId),
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
      if (job.stream) return await tryStream(deps, attempt)
      return await (stream ? tryGathered(deps, attempt) : tryWhole(deps, attempt))
    } catch (failure) {
      if (!(failure instanceof UpstreamFailure)) throw failure
      log.add(offer, failure, clock.monotonicMs() - startedMs)
      traces?.failed(plan.ticket.requestId, failure)
      if (failure instanceof Cancelled) throw cancelledError(failure, signal, attempts)
      if (failure.outcome !== 'request_rejected') noteFailure(attempt, failure)
      else if (!isContextTooSmall(failure)) throw rejectedError(failure, attempts)
    }
  }
  if (signal.aborted) throw abortedError(signal, attempts)
  throw failedError(plan.offers, log)
}

/**
 * Returns the body for the server. Writing it notes in the job which stop sequences the server does not get. If the gateway looks for
 * these in a stream, the body is written again, for a stream.
 *
 * @param sentJob the job with the pseudonym of its user, where a hoster gets it
 */
function writeBody(task: UpstreamTask, job: ChatJob, sentJob: ChatJob, offer: Offer, maxTokens: number): string {
  const body = task.requestBody(sentJob, offer, maxTokens)
  if (sentJob !== job) shareFits(sentJob, job)
  return mustGather(job, offer) ? task.requestBody({ ...sentJob, stream: true }, offer, maxTokens) : body
}

type Lines = readonly string[] | undefined

function linesOf(own: Lines, traced: Lines): Lines {
  if (traced === undefined) return own
  return own === undefined ? traced : [...own, ...traced]
}

/** Returns what reads the answers of one attempt. */
function readerFor(
  { noteWork, checkTime }: DispatchDeps,
  task: UpstreamTask,
  job: ChatJob,
  offer: Offer,
  customerId: string,
): AnswerReader {
  const native = task.reader?.(job, offer) ?? chatReader
  const fit = fitOf(job, offer)
  const stopped = fit?.cutStops.length ? withStops(native, fit.cutStops) : native
  const named = mayCall(job) ? withClientNames(stopped, clientCalls(job, fit)) : stopped
  if (fit?.schemas === undefined) return named
  return withSchemaCheck(named, fit, fit.schemas, checkTime.of(customerId), workMs => noteWork(customerId, workMs))
}

/**
 * Whether a whole answer is read from a stream, because the gateway cuts it at stop sequences that the server did not get.
 * It leaves the stream at the first, so that nothing is generated which nobody pays for. Several choices end at different
 * times, and only answers of chat have log probabilities and media: these are generated to their end.
 */
function mustGather(job: ChatJob, offer: Offer): boolean {
  if (job.stream || !job.hasStop || job.choices > 1 || job.forward.logprobs || asksForMedia(job)) return false
  return (fitOf(job, offer)?.cutStops.length ?? 0) > 0
}

/** Whether the model may call tools. */
function mayCall({ forward }: ChatJob): boolean {
  return forward.tools !== undefined || forward.functions !== undefined
}
