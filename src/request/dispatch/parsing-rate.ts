import type { RatePool } from '../../base/runtime/rate-pool.ts'

/** What each stream may always use, per second. It cannot be saved up. An ordinary stream of 100 tokens a second needs 5,000. */
const OWN_UNITS_PER_S = 8_192
/** The clock is read after this many units, which take about a millisecond. */
const UNITS_PER_CHECK = 1_024

/**
 * Limits the CPU that streams take, in units of about a microsecond: one delimiter of JSON, one line, or 256 bytes. What a
 * stream needs beyond its own share, it takes from the pool of its endpoint. When the pool is empty, it waits, so that
 * other requests run in between.
 */
export class ParsingRate {
  readonly #pool: RatePool
  #checkedUnits = 0
  #checkedMs = performance.now()

  constructor(pool: RatePool) {
    this.#pool = pool
  }

  /** Returns how long the stream must wait, in ms; nearly always 0. `units`: what was parsed so far. */
  waitMs(units: number): number {
    const used = units - this.#checkedUnits
    if (used <= UNITS_PER_CHECK) return 0
    const nowMs = performance.now()
    const excess = used - (Math.min(1_000, nowMs - this.#checkedMs) * OWN_UNITS_PER_S) / 1_000
    this.#checkedUnits = units
    this.#checkedMs = nowMs
    return excess <= 0 ? 0 : this.#pool.take(excess, nowMs)
  }
}
