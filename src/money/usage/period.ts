import { DAY_MS, HOUR_MS } from '../../base/domain/durations.ts'
import type { Interval } from '../../wire/api/reports.ts'

/** A span of whole UTC days, from `fromIso` up to but not including `untilIso`. */
export interface Period {
  readonly days: number
  readonly fromIso: string
  readonly untilIso: string
}

/**
 * Returns the last `days` UTC days, including the day of `nowMs` (epoch). UTC has no daylight saving, so a
 * day is always 24 h.
 */
export function lastDays(days: number, nowMs: number): Period {
  const untilMs = (Math.floor(nowMs / DAY_MS) + 1) * DAY_MS
  return {
    days,
    fromIso: new Date(untilMs - days * DAY_MS).toISOString(),
    untilIso: new Date(untilMs).toISOString(),
  }
}

/**
 * Returns the starts (epoch ms) of the buckets that overlap the period, oldest first. The first week or month
 * may begin before the period.
 */
export function bucketStarts({ fromIso, untilIso }: Period, interval: Interval): number[] {
  const untilMs = Date.parse(untilIso)
  const starts: number[] = []
  for (let startMs = firstStart(Date.parse(fromIso), interval); startMs < untilMs; ) {
    starts.push(startMs)
    startMs = interval === 'month' ? monthStart(startMs, 1) : startMs + STEP_MS[interval]
  }
  return starts
}

/**
 * Returns a function that formats bucket starts (whole hours) as ISO 8601 in UTC. It caches the day:
 * `toISOString` for each hour of a year takes 12 ms.
 */
export function bucketNames(): (startMs: number) => string {
  let day = Number.NaN
  let dayText = ''
  return startMs => {
    const startDay = Math.floor(startMs / DAY_MS)
    if (startDay !== day) {
      day = startDay
      dayText = new Date(day * DAY_MS).toISOString().slice(0, 11)
    }
    const hour = (startMs - day * DAY_MS) / STEP_MS.hour
    return `${dayText}${String(hour).padStart(2, '0')}:00:00+00:00`
  }
}

const STEP_MS = { hour: HOUR_MS, day: DAY_MS, week: 7 * DAY_MS }

function firstStart(fromMs: number, interval: Interval): number {
  if (interval === 'month') return monthStart(fromMs, 0)
  // Epoch time began on a Thursday; weeks begin on Monday.
  return interval === 'week' ? fromMs - ((fromMs / DAY_MS + 3) % 7) * DAY_MS : fromMs
}

function monthStart(epochMs: number, monthsLater: number): number {
  const at = new Date(epochMs)
  return Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + monthsLater)
}
