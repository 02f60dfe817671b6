/** How much of its request windows a customer has used. Windows are UTC minutes and UTC days. */
export interface WindowCounts {
  readonly minuteUsed: number
  readonly dayUsed: number
  readonly minuteEndsAtEpochMs: number
  readonly dayEndsAtEpochMs: number
}
