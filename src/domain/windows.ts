/** The requests that a customer has made in the current UTC minute and UTC day. */
export interface WindowCounts {
  readonly minuteUsed: number
  readonly dayUsed: number
  readonly minuteEndsAtEpochMs: number
  readonly dayEndsAtEpochMs: number
}
