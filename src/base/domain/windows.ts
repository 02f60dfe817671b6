/** The requests that a customer has made in the current UTC minute and UTC day. */
export interface WindowCounts {
  readonly minuteUsed: number
  readonly dayUsed: number
  readonly minuteEndsAtEpochMs: number
  readonly dayEndsAtEpochMs: number
}

/**
 * Returns the whole seconds until a window ends, for Retry-After. At least 1: a retry after 0 seconds would
 * be refused again.
 */
export function secondsUntilWindowEnd(windowEndsAtEpochMs: number, nowMs: number): number {
  return Math.max(1, Math.ceil((windowEndsAtEpochMs - nowMs) / 1000))
}
