import type { Nanos } from './money.ts'

/**
 * What was charged since 00:00 UTC of today, of Monday and of the first of the month, and in total. Refunds are not
 * subtracted.
 */
export interface Spend {
  readonly todayNanos: Nanos
  readonly weekNanos: Nanos
  readonly monthNanos: Nanos
  readonly totalNanos: Nanos
}

export const noSpend: Spend = { todayNanos: 0n, weekNanos: 0n, monthNanos: 0n, totalNanos: 0n }
