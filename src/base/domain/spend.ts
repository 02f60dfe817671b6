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

/** The spend of a key, and what of it counts against its limit now. */
export interface KeyUse extends Spend {
  /** UTC day of the last settled request, YYYY-MM-DD; null if there was none. */
  readonly lastUsedOn: string | null
  /** What counts against the limit in its current window; 0 for a key without a limit. */
  readonly windowNanos: Nanos
  /** When that returns to zero; null if never. */
  readonly windowEndsAt: Date | null
}

export const unused: KeyUse = { ...noSpend, lastUsedOn: null, windowNanos: 0n, windowEndsAt: null }
