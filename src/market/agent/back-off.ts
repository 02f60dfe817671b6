/**
 * Delays between attempts: each is twice as long as the one before, after a number of equal ones, with jitter, so that
 * agents do not return together.
 */
export class BackOff {
  readonly #firstMs: number
  readonly #maxMs: number
  readonly #random: () => number
  readonly #equal: number
  #failures = 0

  /**
   * @param random uniform in [0, 1)
   * @param equal how many delays are as long as the first one
   */
  constructor(firstMs: number, maxMs: number, random: () => number, equal = 1) {
    this.#firstMs = firstMs
    this.#maxMs = maxMs
    this.#random = random
    this.#equal = equal
  }

  /** Returns the next delay in ms: between half of the full delay and all of it. */
  nextMs(): number {
    const doublings = Math.min(Math.max(0, ++this.#failures - this.#equal), 30)
    const fullMs = Math.min(this.#maxMs, this.#firstMs * 2 ** doublings)
    return fullMs * (0.5 + this.#random() / 2)
  }

  reset(): void {
    this.#failures = 0
  }
}
