import type { Attempt } from '../../base/domain/handoff.ts'
import type { HealthView } from '../../base/domain/health.ts'
import type { Offer, Timeouts } from '../../base/domain/offer.ts'
import type { UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import type { ExchangeLimits } from '../../wire/upstreams/exchange-request.ts'
import type { RetryBudget } from './retry-budget.ts'

/** Why an offer of the plan was not tried. */
export type NotTriedReason =
  /** A server refused the prompt as too long, and this offer has no larger context. */
  | 'context_too_small'
  /** The same endpoint failed for this model. */
  | 'endpoint_failed'
  /** The endpoint could not be reached for another model. */
  | 'endpoint_unreachable'
  /** The allowed number of servers has failed for this model. */
  | 'attempts_max'
  /** The server fails this model, and the retry budget of the model or of the server is used up. */
  | 'retry_budget'
  | 'no_time_left'

/** The limits of attempts. */
export interface AttemptRules {
  /** The maximum number of servers to try for one model. */
  readonly attemptsMax: number
  readonly retryBudget: RetryBudget
  readonly health: Pick<HealthView, 'state'>
}

/** The failed attempts of one request. Decides which offers may still be tried. */
export class AttemptLog {
  readonly attempts: Attempt[] = []
  readonly failures: UpstreamFailure[] = []
  readonly #rules: AttemptRules
  readonly #tried: Offer[] = []
  /** The offers that were skipped because a retry budget was used up. */
  readonly #withoutBudget = new Set<Offer>()
  /** The largest context that was too small for the prompt. */
  #contextTooSmall = 0

  constructor(rules: AttemptRules) {
    this.#rules = rules
  }

  add(offer: Offer, failure: UpstreamFailure, elapsedMs: number): void {
    this.#tried.push(offer)
    this.failures.push(failure)
    this.attempts.push({ ...identify(offer), outcome: failure.outcome, elapsedMs: Math.round(elapsedMs) })
    if (isContextTooSmall(failure)) this.#contextTooSmall = Math.max(this.#contextTooSmall, offer.contextTokens)
    else if (countsAgainstServer(failure)) this.#rules.retryBudget.noteFailure(offer)
  }

  /** Decides whether to try an offer now, and counts the attempt. */
  begin(offer: Offer): boolean {
    const { retryBudget } = this.#rules
    if (this.obstacle(offer) !== null) return false
    if (!this.#tried.some(({ modelId }) => modelId === offer.modelId)) {
      retryBudget.noteRequest(offer)
      return true
    }
    // A prompt that was too long for one server is no failure.
    if (isContextTooSmall(this.failures.at(-1)!)) return true
    if (this.#isHealthy(offer)) {
      retryBudget.noteFreeRetry(offer)
      return true
    }
    if (retryBudget.takeRetry(offer)) return true
    this.#withoutBudget.add(offer)
    return false
  }

  /**
   * Whether a retry needs no budget. Retries multiply the load of servers that keep failing. An offer that fails little
   * takes over what others fail, and as soon as it fails too, its retries need the budget.
   */
  #isHealthy(offer: Offer): boolean {
    const { health, retryBudget } = this.#rules
    return !retryBudget.isFailing(offer) && health.state(offer.offerId) === 'open'
  }

  /** Returns why an offer may not be tried; null if it may. */
  obstacle(offer: Offer): NotTriedReason | null {
    return this.#tried.length === 0 ? null : this.#obstacleAfter(this.#tried, offer)
  }

  /** Whether one of `offers` from `index + 1` on may be tried if the offer at `index` fails. */
  hasNext(offers: readonly Offer[], index: number): boolean {
    if (index + 1 >= offers.length) return false
    const tried = [...this.#tried, elementAt(offers, index)]
    return offers.some((offer, at) => at > index && this.#obstacleAfter(tried, offer) === null)
  }

  #obstacleAfter(tried: readonly Offer[], offer: Offer): NotTriedReason | null {
    const { modelId, endpoint, contextTokens } = offer
    const forModel = tried.filter(other => other.modelId === modelId)
    if (forModel.some(other => other.endpoint.endpointId === endpoint.endpointId)) return 'endpoint_failed'
    const isUnreachable = this.attempts.some(
      ({ endpointId, outcome }) => endpointId === endpoint.endpointId && outcome === 'connect_failed',
    )
    if (isUnreachable) return 'endpoint_unreachable'
    if (forModel.length >= this.#rules.attemptsMax) return 'attempts_max'
    if (this.#withoutBudget.has(offer)) return 'retry_budget'
    return contextTokens <= this.#contextTooSmall ? 'context_too_small' : null
  }
}

export function identify(offer: Offer): Pick<Attempt, 'offerId' | 'endpointId' | 'provider'> {
  return { offerId: offer.offerId, endpointId: offer.endpoint.endpointId, provider: offer.endpoint.kind }
}

export function isContextTooSmall({ rejection }: UpstreamFailure): boolean {
  return rejection?.code === 'context_length_exceeded'
}

/** Whether a failure says that a server cannot serve its load: not if the request or the client is the cause. */
function countsAgainstServer({ outcome }: UpstreamFailure): boolean {
  return outcome !== 'request_rejected' && outcome !== 'not_sent' && outcome !== 'cancelled'
}

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
