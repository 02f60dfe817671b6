/**
 * Delays between attempts: each is twice as long as the one before, with jitter, so that agents do not return together.
 */
export class BackOff {
  readonly #firstMs: number
  readonly #maxMs: number
  readonly #random: () => number
  #failures = 0

  /** @param random uniform in [0, 1) */
  constructor(firstMs: number, maxMs: number, random: () => number) {
    this.#firstMs = firstMs
    this.#maxMs = maxMs
    this.#random = random
  }

  /** Returns the next delay in ms: between half of the full delay and all of it. */
  nextMs(): number {
    const fullMs = Math.min(this.#maxMs, this.#firstMs * 2 ** Math.min(this.#failures++, 30))
    return fullMs * (0.5 + this.#random() / 2)
  }

  reset(): void {
    this.#failures = 0
  }
}
