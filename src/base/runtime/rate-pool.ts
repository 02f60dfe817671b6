/** Units that several users may take together, refilled at a steady rate. */
export class RatePool {
  readonly #perSecond: number
  readonly #max: number
  /** Below zero when more was taken than was there. */
  #free: number
  #sinceMs = performance.now()

  /** @param max what may be taken at once after a pause */
  constructor(perSecond: number, max: number) {
    this.#perSecond = perSecond
    this.#max = max
    this.#free = max
  }

  /**
   * Takes units. Returns how long their user must pause, in ms; 0 while there are enough.
   *
   * @param nowMs of `performance.now()`, which the constructor reads itself
   */
  take(units: number, nowMs: number): number {
    const refilled = ((nowMs - this.#sinceMs) * this.#perSecond) / 1_000
    this.#free = Math.min(this.#max, this.#free + refilled) - units
    this.#sinceMs = nowMs
    return this.#free >= 0 ? 0 : (-this.#free * 1_000) / this.#perSecond
  }
}
