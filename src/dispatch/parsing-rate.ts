/** What may be parsed of one stream in one second: about 100 ms of CPU for the most expensive JSON. */
const UNITS_PER_SECOND = 131_072

/**
 * Limits the CPU that the parsing of one stream takes, in units of one delimiter of its JSON or one line. A
 * stream that was buffered and arrives at once is slowed down, so that other requests run in between. Reads
 * the clock only when a second's share is used up, which no ordinary stream reaches.
 */
export class ParsingRate {
  #unitsAtStart = 0
  #startMs = performance.now()

  /** Returns how long the stream must wait, in ms; nearly always 0. `units`: what was parsed so far. */
  waitMs(units: number): number {
    if (units - this.#unitsAtStart <= UNITS_PER_SECOND) return 0
    const nowMs = performance.now()
    const waitMs = this.#startMs + 1_000 - nowMs
    if (waitMs > 0) return waitMs
    this.#unitsAtStart = units
    this.#startMs = nowMs
    return 0
  }
}
