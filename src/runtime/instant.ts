const INSTANT =
  /^(\d{4})-(\d{2})-(\d{2})(?:T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d))?$/

/**
 * Epoch ms of an ISO 8601 date (its 00:00 UTC) or of a time with its offset; undefined for anything else, and for a day the calendar
 * lacks: `Date.parse('2026-02-30')` is the 2nd of March, which nobody meant.
 */
export function readInstant(text: string): number | undefined {
  const [, year, month, day] = INSTANT.exec(text) ?? []
  if (month === undefined || Number(month) < 1 || Number(month) > 12) return undefined
  const days = new Date(0)
  // Not Date.UTC, which takes the years 0 to 99 for 1900 to 1999. Day 0 of the next month is the last of this one.
  days.setUTCFullYear(Number(year), Number(month), 0)
  return Number(day) >= 1 && Number(day) <= days.getUTCDate() ? Date.parse(text) : undefined
}
