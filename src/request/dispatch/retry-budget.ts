import type { Endpoint, Offer } from '../../base/domain/offer.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

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
