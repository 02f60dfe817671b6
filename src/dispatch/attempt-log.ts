import type { Attempt } from '../domain/handoff.ts'
import type { HealthView } from '../domain/health.ts'
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
  /** The retry budget of this model or of this server is used up. */
  | 'retry_budget'
  | 'no_time_left'

/** The limits of attempts. */
export interface AttemptRules {
  /** The maximum number of servers to try for one model. */
  readonly attemptsMax: number
  readonly retryBudget: RetryBudget
  readonly health: Pick<HealthView, 'state' | 'wasEjectedAfter'>
}

/** The failed attempts of one request. Decides which offers may still be tried. */
export class AttemptLog {
  readonly attempts: Attempt[] = []
  readonly failures: UpstreamFailure[] = []
  readonly #rules: AttemptRules
  readonly #tried: Offer[] = []
  /** When the last attempt began, monotonic ms. */
  #lastSentMs = 0
  /** The models and servers with a used-up retry budget. */
  readonly #withoutBudget = { modelIds: [] as string[], endpointIds: [] as string[] }
  /** The largest context that was too small for the prompt. */
  #contextTooSmall = 0

  constructor(rules: AttemptRules) {
    this.#rules = rules
  }

  /** @param sentMs when the attempt began, monotonic ms */
  add(offer: Offer, failure: UpstreamFailure, sentMs: number, elapsedMs: number): void {
    this.#tried.push(offer)
    this.#lastSentMs = sentMs
    this.failures.push(failure)
    this.attempts.push({ ...identify(offer), outcome: failure.outcome, elapsedMs: Math.round(elapsedMs) })
    if (isContextTooSmall(failure)) this.#contextTooSmall = Math.max(this.#contextTooSmall, offer.contextTokens)
    else if (countsAgainstServer(failure)) this.#rules.retryBudget.noteFailure(offer.endpoint.endpointId)
  }

  /** Decides whether to try an offer now, and counts the attempt. */
  begin(offer: Offer): boolean {
    const { modelId, endpoint } = offer
    const { retryBudget } = this.#rules
    if (this.obstacle(offer) !== null) return false
    if (!this.#tried.some(tried => tried.modelId === modelId)) {
      retryBudget.noteRequest(modelId, endpoint.endpointId)
      return true
    }
    // A prompt that was too long for one server is no failure.
    if (isContextTooSmall(this.failures.at(-1)!)) return true
    if (this.#isRescue(offer)) {
      retryBudget.noteFreeRetry(modelId, endpoint.endpointId)
      return true
    }
    const refusal = retryBudget.takeRetry(modelId, endpoint.endpointId)
    if (refusal === 'model') this.#withoutBudget.modelIds.push(modelId)
    if (refusal === 'server') this.#withoutBudget.endpointIds.push(endpoint.endpointId)
    return refusal === null
  }

  /**
   * Whether a retry needs no budget. When a server is ejected, the requests that it had been sent before fail together: a
   * fifth of the usual traffic is soon used up. The ejected server gets no more of them, so each ejection causes at most
   * as many retries as it had requests. Where all servers fail, nothing can be rescued.
   */
  #isRescue({ offerId, endpoint }: Offer): boolean {
    const { health, retryBudget } = this.#rules
    if (retryBudget.isFailing(endpoint.endpointId)) return false
    return health.state(offerId) === 'open' && health.wasEjectedAfter(this.#tried.at(-1)!.offerId, this.#lastSentMs)
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
    if (forModel.length >= this.#rules.attemptsMax) return 'attempts_max'
    const { modelIds, endpointIds } = this.#withoutBudget
    if (modelIds.includes(modelId) || endpointIds.includes(endpoint.endpointId)) return 'retry_budget'
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
