import type { Attempt } from '../../base/domain/handoff.ts'
import type { HealthView } from '../../base/domain/health.ts'
import type { Endpoint, Offer } from '../../base/domain/offer.ts'
import type { UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

// Which offers of a plan may still be tried after others failed: for one request, and for all requests together.

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
 * Limits the retries at servers that fail, for each model and for each server: when every server of a model fails half
 * of its requests, three attempts for each would nearly double their load.
 */
export interface RetryBudget {
  /** Counts the first attempt of a request at a model. */
  noteRequest(offer: BudgetedOffer): void
  /** Counts an attempt that failed because of its server. */
  noteFailure(offer: BudgetedOffer): void
  /** Counts a retry at a healthy offer, which needs no budget. It leaves less for the others. */
  noteFreeRetry(offer: BudgetedOffer): void
  /**
   * Whether more than a tenth of the attempts of the last ten seconds failed at this offer. Other models of the same
   * server say nothing about it.
   */
  isFailing(offer: BudgetedOffer): boolean
  /** Takes one retry from the budgets of the model and of the server. Returns false when one of them is used up. */
  takeRetry(offer: BudgetedOffer): boolean
}

export type BudgetedOffer = Pick<Offer, 'offerId' | 'modelId'> & { readonly endpoint: Pick<Endpoint, 'endpointId'> }

/**
 * Retries may be 20% of the requests of the last ten seconds, and always three a second, so that a quiet gateway may
 * retry every request (Finagle's budget has the same form). For a model, the requests are those for the model. For a
 * server, they are those that it got first.
 */
export function createRetryBudget({ clock }: { readonly clock: Clock }): RetryBudget {
  const models = new Map<string, Seconds>()
  const servers = new Map<string, Seconds>()
  const offers = new Map<string, Seconds>()
  const secondsOf = (all: Map<string, Seconds>, id: string): Seconds => {
    const second = Math.floor(clock.monotonicMs() / 1000)
    let seconds = all.get(id)
    if (seconds === undefined) {
      // Models and servers come and go. A budget that starts again is full.
      if (all.size >= BUDGETS_MAX) all.clear()
      seconds = new Seconds(second)
      all.set(id, seconds)
    }
    seconds.moveTo(second)
    return seconds
  }
  const budgetsOf = ({ modelId, endpoint }: BudgetedOffer) => [
    secondsOf(models, modelId),
    secondsOf(servers, endpoint.endpointId),
  ]
  const note = (offer: BudgetedOffer, what: Counted) => {
    for (const seconds of [...budgetsOf(offer), secondsOf(offers, offer.offerId)]) seconds.add(what)
  }
  return {
    noteRequest: offer => note(offer, 'requests'),
    noteFailure: ({ offerId }) => secondsOf(offers, offerId).add('failures'),
    noteFreeRetry: offer => note(offer, 'freeRetries'),
    isFailing: ({ offerId }) => secondsOf(offers, offerId).isFailing,
    takeRetry(offer) {
      if (budgetsOf(offer).some(isUsedUp)) return false
      note(offer, 'retries')
      return true
    },
  }
}

const WINDOW_S = 10
const RETRIED_PART = 0.2
const RETRIES_MIN_PER_S = 3
/** An offer that fails a larger part of its attempts gets a limited number of retries. */
const FAILED_PART = 0.1
const BUDGETS_MAX = 10_000

function isUsedUp({ requests, retries, freeRetries }: Seconds): boolean {
  return retries + 1 > Math.max(RETRIES_MIN_PER_S * WINDOW_S, RETRIED_PART * requests - freeRetries)
}

type Counted = 'requests' | 'retries' | 'freeRetries' | 'failures'

/** What happened in the last ten seconds. */
class Seconds {
  requests = 0
  retries = 0
  freeRetries = 0
  failures = 0
  #second: number
  readonly #of = {
    requests: new Int32Array(WINDOW_S),
    retries: new Int32Array(WINDOW_S),
    freeRetries: new Int32Array(WINDOW_S),
    failures: new Int32Array(WINDOW_S),
  }

  constructor(second: number) {
    this.#second = second
  }

  get isFailing(): boolean {
    return this.failures > FAILED_PART * (this.requests + this.retries + this.freeRetries)
  }

  moveTo(second: number): void {
    for (; this.#second < second; this.#second++) {
      if (second - this.#second > WINDOW_S) this.#second = second - WINDOW_S
      const oldest = (this.#second + 1) % WINDOW_S
      for (const what of counted) {
        this[what] -= this.#of[what][oldest]!
        this.#of[what][oldest] = 0
      }
    }
  }

  add(what: Counted): void {
    this[what]++
    this.#of[what][this.#second % WINDOW_S]!++
  }
}

const counted: readonly Counted[] = ['requests', 'retries', 'freeRetries', 'failures']
