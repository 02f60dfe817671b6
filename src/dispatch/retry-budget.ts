import type { Clock } from '../runtime/clock.ts'

/**
 * Limits the attempts after the first one of each request, for each model: when every server of a model fails half of
 * its requests, three attempts for each would nearly double their load.
 */
export interface RetryBudget {
  /** Counts the first attempt of a request at a model. */
  noteRequest(modelId: string): void
  /** Takes one retry from the budget of the model; false when it is used up. */
  takeRetry(modelId: string): boolean
}

/**
 * Retries may be 20% of the requests of the last ten seconds, and always three a second, so that a quiet gateway may
 * retry every request (Finagle's budget has the same form).
 */
export function createRetryBudget({ clock }: { readonly clock: Clock }): RetryBudget {
  const models = new Map<string, Seconds>()
  const secondsOf = (modelId: string): Seconds => {
    const second = Math.floor(clock.monotonicMs() / 1000)
    let seconds = models.get(modelId)
    if (seconds === undefined) {
      // Models come and go. A budget that starts again is full.
      if (models.size >= MODELS_MAX) models.clear()
      seconds = new Seconds(second)
      models.set(modelId, seconds)
    }
    seconds.moveTo(second)
    return seconds
  }
  return {
    noteRequest: modelId => secondsOf(modelId).addRequest(),
    takeRetry(modelId) {
      const seconds = secondsOf(modelId)
      if (seconds.retries + 1 > Math.max(RETRIES_MIN_PER_S * WINDOW_S, RETRIED_PART * seconds.requests)) return false
      seconds.addRetry()
      return true
    },
  }
}

const WINDOW_S = 10
const RETRIED_PART = 0.2
const RETRIES_MIN_PER_S = 3
const MODELS_MAX = 10_000

/** The requests and retries of the last ten seconds. */
class Seconds {
  requests = 0
  retries = 0
  #second: number
  readonly #requestsOf = new Int32Array(WINDOW_S)
  readonly #retriesOf = new Int32Array(WINDOW_S)

  constructor(second: number) {
    this.#second = second
  }

  moveTo(second: number): void {
    for (; this.#second < second; this.#second++) {
      if (second - this.#second > WINDOW_S) this.#second = second - WINDOW_S
      const oldest = (this.#second + 1) % WINDOW_S
      this.requests -= this.#requestsOf[oldest]!
      this.retries -= this.#retriesOf[oldest]!
      this.#requestsOf[oldest] = 0
      this.#retriesOf[oldest] = 0
    }
  }

  addRequest(): void {
    this.requests++
    this.#requestsOf[this.#second % WINDOW_S]!++
  }

  addRetry(): void {
    this.retries++
    this.#retriesOf[this.#second % WINDOW_S]!++
  }
}
