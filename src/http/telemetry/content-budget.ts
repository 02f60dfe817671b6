/** Texts of spans that wait for the collector, in UTF-16 units. Spans beyond it go without their texts. */
const UNITS_MAX = 16 * 1024 * 1024

/** Bounds the memory of prompts and answers that wait in spans: a collector that hangs must not fill it. */
export class ContentBudget {
  #units = 0

  /** Returns false if the texts would be too much. */
  take(units: number): boolean {
    if (this.#units + units > UNITS_MAX) return false
    this.#units += units
    return true
  }

  /** @param isLast no span waits any more, so that spans that were dropped are forgotten too */
  release(units: number, isLast: boolean): void {
    this.#units = isLast ? 0 : Math.max(0, this.#units - units)
  }
}
