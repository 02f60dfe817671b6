import type { ChatJob } from '../domain/chat-job.ts'
import type { Clock } from '../domain/clock.ts'
import type { ChatCompletion } from '../domain/completion.ts'
import type { Answer, Attempt, Plan } from '../domain/handoff.ts'
import type { HealthRecorder } from '../domain/health-recorder.ts'
import type { Offer } from '../domain/offer.ts'
import { Unserved } from '../domain/unserved.ts'
import { UpstreamFailure } from '../domain/upstream-failure.ts'
import { completionId, type Envelope } from '../wire/envelope.ts'
import { upstreamRequestBody } from '../wire/upstream-request.ts'
import { askStream } from './ask-stream.ts'
import { askWhole } from './ask-whole.ts'
import type { UpstreamClient } from './upstream-client.ts'

export interface DispatchDeps {
  readonly upstream: UpstreamClient
  readonly health: HealthRecorder
  readonly clock: Clock
}

const ATTEMPTS_PER_MODEL_MAX = 3
const ATTEMPTS_MAX = 6
/** Below this an attempt could only time out. */
const REMAINING_MS_MIN = 50

/**
 * Asks the plan's offers in order until one gives its first content. What failed before is never seen by the client, so
 * failing over is silent; after the first content there is no way back. All attempts share one deadline, the longest
 * total limit among the offers.
 *
 * Throws Unserved: `upstream_rejected` or `context_length_exceeded` as soon as an upstream calls the request itself wrong,
 * `all_hosters_failed` when none is left, outcome `client_gone` when `signal` was aborted.
 */
export async function dispatch(deps: DispatchDeps, plan: Plan, job: ChatJob, signal: AbortSignal): Promise<Answer> {
  const { clock } = deps
  const deadlineMs = clock.monotonicMs() + Math.max(0, ...plan.offers.map(offer => offer.endpoint.timeouts.totalMs))
  const attempts: Attempt[] = []
  const failures: UpstreamFailure[] = []
  for (const offer of plan.offers) {
    const startedMs = clock.monotonicMs()
    const remainingMs = deadlineMs - startedMs
    if (attempts.length === ATTEMPTS_MAX || remainingMs < REMAINING_MS_MIN) break
    if (!isWorthTrying(offer, plan.offers, attempts)) continue
    try {
      return await attempt(deps, plan, offer, job, { attempts, startedMs, remainingMs, signal })
    } catch (failure) {
      if (!(failure instanceof UpstreamFailure)) throw failure
      const { outcome, retryAfterS } = failure
      attempts.push({ ...name(offer), outcome, elapsedMs: clock.monotonicMs() - startedMs })
      failures.push(failure)
      if (outcome === 'cancelled') throw new Unserved('client_gone', 'upstream_unavailable', attempts)
      if (outcome === 'request_rejected') throw refused(failure, attempts)
      deps.health.recordFailure(offer.offerId, outcome, retryAfterS)
    }
  }
  if (signal.aborted) throw new Unserved('client_gone', 'upstream_unavailable', attempts)
  throw unserved(attempts, failures)
}

interface AttemptFrame {
  readonly attempts: readonly Attempt[]
  readonly startedMs: number
  readonly remainingMs: number
  readonly signal: AbortSignal
}

async function attempt(
  { upstream, health, clock }: DispatchDeps,
  { ticket }: Plan,
  offer: Offer,
  job: ChatJob,
  { attempts, startedMs, remainingMs, signal }: AttemptFrame,
): Promise<Answer> {
  const envelope: Envelope = {
    id: completionId(ticket.requestId),
    created: Math.floor(clock.epochMs() / 1000),
    model: offer.modelId,
  }
  const body = upstreamRequestBody(job, offer, ticket.maxTokens)
  const ask = { endpoint: offer.endpoint, body, stream: job.stream, remainingMs, signal }
  const elapsedMs = () => clock.monotonicMs() - startedMs
  const answered = (firstTokenMs: number) => ({
    offer,
    firstTokenMs,
    attempts: [...attempts, { ...name(offer), outcome: 'answered' as const, elapsedMs: firstTokenMs }],
  })

  if (!job.stream) {
    const completion = await askWhole(upstream, ask, envelope, job.choices)
    const totalMs = elapsedMs()
    health.recordSuccess(offer.offerId, { firstTokenMs: totalMs, totalMs, ...outputTokens(completion) })
    return { kind: 'whole', completion, ...answered(totalMs) }
  }

  let firstTokenMs = 0
  const { chunks } = await askStream(upstream, ask, envelope, job.choices, (ending, usage) => {
    firstTokenMs ||= elapsedMs()
    if (ending === 'complete') {
      health.recordSuccess(offer.offerId, { firstTokenMs, totalMs: elapsedMs(), ...outputTokens({ usage }) })
    } else if (ending === 'left' || ending.outcome === 'cancelled') {
      health.recordSuccess(offer.offerId, { firstTokenMs })
    } else if (ending.outcome !== 'request_rejected') {
      health.recordFailure(offer.offerId, ending.outcome, ending.retryAfterS)
    } else {
      // Rejecting a request that one has begun to answer is the upstream's fault.
      health.recordFailure(offer.offerId, 'server_error')
    }
  })
  firstTokenMs ||= elapsedMs()
  return { kind: 'stream', chunks, ...answered(firstTokenMs) }
}

/** Three tries for a model, and no second one at an endpoint that could not even be reached. */
function isWorthTrying(offer: Offer, offers: readonly Offer[], attempts: readonly Attempt[]): boolean {
  const modelOf = new Map(offers.map(candidate => [candidate.offerId, candidate.modelId]))
  const triedForModel = attempts.filter(done => modelOf.get(done.offerId) === offer.modelId)
  return (
    triedForModel.length < ATTEMPTS_PER_MODEL_MAX &&
    triedForModel.every(done => done.endpointId !== offer.endpoint.endpointId) &&
    attempts.every(done => done.outcome !== 'connect_failed' || done.endpointId !== offer.endpoint.endpointId)
  )
}

function refused({ rejection }: UpstreamFailure, attempts: readonly Attempt[]): Unserved {
  const code = rejection?.code === 'context_length_exceeded' ? 'context_length_exceeded' : 'upstream_rejected'
  const said = rejection?.message
  const message = said ? `The model server refused the request: ${said}` : undefined
  return new Unserved('refused_upstream', code, attempts, { message, param: rejection?.param ?? undefined })
}

function unserved(attempts: readonly Attempt[], failures: readonly UpstreamFailure[]): Unserved {
  if (attempts.length === 0) return new Unserved('unserved', 'upstream_unavailable', attempts)
  const allBusy = failures.every(failure => failure.outcome === 'busy')
  const waitsS = failures.flatMap(failure => failure.retryAfterS ?? [])
  const retryAfterS = allBusy && waitsS.length > 0 ? Math.max(1, Math.min(...waitsS)) : undefined
  return new Unserved('unserved', 'all_hosters_failed', attempts, { retryAfterS })
}

function name(offer: Offer): Pick<Attempt, 'offerId' | 'endpointId'> {
  return { offerId: offer.offerId, endpointId: offer.endpoint.endpointId }
}

function outputTokens({ usage }: { usage?: ChatCompletion['usage'] | null }): { outputTokens?: number } {
  return usage ? { outputTokens: usage.completion_tokens } : {}
}
