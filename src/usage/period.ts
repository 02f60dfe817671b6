/** A span of whole UTC days: from the first one's 00:00 up to, not including, `untilIso`. */
export interface Period {
  readonly days: number
  readonly fromIso: string
  readonly untilIso: string
}

const DAY_MS = 86_400_000

/** The last `days` UTC days, the one `nowMs` (epoch) is in included. UTC has no daylight saving, so a day is always 24 h. */
export function lastDays(days: number, nowMs: number): Period {
  const untilMs = (Math.floor(nowMs / DAY_MS) + 1) * DAY_MS
  return {
    days,
    fromIso: new Date(untilMs - days * DAY_MS).toISOString(),
    untilIso: new Date(untilMs).toISOString(),
  }
}
