/**
 * The two clocks. Durations and deadlines use the monotonic clock, so a stepped wall clock shifts report
 * buckets but never money.
 */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  epochMs(): number
  /** Milliseconds on a clock that never steps, with fractions. */
  monotonicMs(): number
}

export const systemClock: Clock = {
  epochMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}
