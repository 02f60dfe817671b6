/** How much of its request windows a customer has used. Windows are UTC minutes and UTC days. */
export interface WindowCounts {
  readonly minuteUsed: number
  readonly dayUsed: number
  readonly minuteEndsAtEpochMs: number
  readonly dayEndsAtEpochMs: number
}

/** Whole seconds until a window ends, for Retry-After: at least 1, since 0 would invite the same refusal. */
export function retryAfterS(windowEndsAtEpochMs: number, nowMs: number): number {
  return Math.max(1, Math.ceil((windowEndsAtEpochMs - nowMs) / 1000))
}
