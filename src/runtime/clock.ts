/** The only two clocks. Durations and deadlines use the monotonic one, so a stepped wall clock moves buckets but never money. */
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
