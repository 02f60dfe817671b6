import type { Attempt } from '../domain/handoff.ts'
import type { Offer } from '../domain/offer.ts'
import type { UpstreamFailure } from '../domain/upstream-failure.ts'
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
  /** The servers of this model have had as many retries of late as they may. */
  | 'retry_budget'
  | 'no_time_left'

/** The failed attempts of one request. Decides which offers may still be tried. */
export class AttemptLog {
  readonly attempts: Attempt[] = []
  readonly failures: UpstreamFailure[] = []
  readonly #attemptsMax: number
  readonly #retryBudget: RetryBudget
  readonly #tried: Offer[] = []
  readonly #withoutBudget = new Set<string>()
  /** The largest context that was too small for the prompt. */
  #contextTooSmall = 0

  /** @param attemptsMax the maximum number of servers to try for one model */
  constructor(attemptsMax: number, retryBudget: RetryBudget) {
    this.#attemptsMax = attemptsMax
    this.#retryBudget = retryBudget
  }

  add(offer: Offer, failure: UpstreamFailure, elapsedMs: number): void {
    this.#tried.push(offer)
    this.failures.push(failure)
    this.attempts.push({ ...identify(offer), outcome: failure.outcome, elapsedMs: Math.round(elapsedMs) })
    if (isContextTooSmall(failure)) this.#contextTooSmall = Math.max(this.#contextTooSmall, offer.contextTokens)
  }

  /** Decides whether to try an offer now, and counts the attempt. */
  begin(offer: Offer): boolean {
    const { modelId } = offer
    if (this.obstacle(offer) !== null) return false
    if (!this.#tried.some(tried => tried.modelId === modelId)) this.#retryBudget.noteRequest(modelId)
    // A prompt that was too long for one server is no failure.
    else if (!isContextTooSmall(this.failures.at(-1)!) && !this.#retryBudget.takeRetry(modelId)) {
      this.#withoutBudget.add(modelId)
      return false
    }
    return true
  }

  /** Returns why an offer may not be tried; null if it may. */
  obstacle(offer: Offer): NotTriedReason | null {
    return this.#tried.length === 0 ? null : this.#obstacleAfter(this.#tried, offer)
  }

  /** Whether one of `offers` from `index + 1` on may be tried if the offer at `index` fails. */
  hasNext(offers: readonly Offer[], index: number): boolean {
    if (index + 1 >= offers.length) return false
    const tried = [...this.#tried, offers[index]!]
    return offers.some((offer, at) => at > index && this.#obstacleAfter(tried, offer) === null)
  }

  #obstacleAfter(tried: readonly Offer[], { modelId, endpoint, contextTokens }: Offer): NotTriedReason | null {
    const forModel = tried.filter(offer => offer.modelId === modelId)
    if (forModel.some(offer => offer.endpoint.endpointId === endpoint.endpointId)) return 'endpoint_failed'
    const isUnreachable = this.attempts.some(
      ({ endpointId, outcome }) => endpointId === endpoint.endpointId && outcome === 'connect_failed',
    )
    if (isUnreachable) return 'endpoint_unreachable'
    if (forModel.length >= this.#attemptsMax) return 'attempts_max'
    if (this.#withoutBudget.has(modelId)) return 'retry_budget'
    return contextTokens <= this.#contextTooSmall ? 'context_too_small' : null
  }
}

export function identify(offer: Offer): Pick<Attempt, 'offerId' | 'endpointId' | 'provider'> {
  return { offerId: offer.offerId, endpointId: offer.endpoint.endpointId, provider: offer.endpoint.kind }
}

export function isContextTooSmall({ rejection }: UpstreamFailure): boolean {
  return rejection?.code === 'context_length_exceeded'
}
