const INSTANT =
  /^(\d{4})-(\d{2})-(\d{2})(?:T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d))?$/

/**
 * Parses an ISO 8601 date (00:00 UTC) or a time with an offset into epoch ms. Undefined for anything else and
 * for days that do not exist: `Date.parse('2026-02-30')` would return the 2nd of March.
 */
export function readInstant(text: string): number | undefined {
  const [, year, month, day] = INSTANT.exec(text) ?? []
  if (month === undefined || Number(month) < 1 || Number(month) > 12) return undefined
  const days = new Date(0)
  // Not Date.UTC, which reads the years 0 to 99 as 1900 to 1999. Day 0 of the next month is the last day of
  // this month.
  days.setUTCFullYear(Number(year), Number(month), 0)
  return Number(day) >= 1 && Number(day) <= days.getUTCDate() ? Date.parse(text) : undefined
}
