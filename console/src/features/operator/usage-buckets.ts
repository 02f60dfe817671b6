import { sumUsd } from '../../format/usd-text.ts'

const DAY_MS = 86_400_000
/** More bars than this are too narrow to point at on a phone. */
const BARS_MAX = 62

/** UTC days, both included, with their sums. */
export interface UsageBucket {
  readonly from: string
  readonly until: string
  readonly requests: number
  readonly chargedUsd: number
  /** Today is among its days. */
  readonly isOpen: boolean
}

interface UsageDays {
  /** UTC days such as 2026-11-24, both included. */
  readonly from: string
  readonly until: string
  readonly days: readonly { readonly day: string; readonly requests: number; readonly charged_usd: number }[]
}

/** Returns every day of the span, also those without requests; long spans as weeks that end with the last day. */
export function usageBuckets(usage: UsageDays, nowMs = Date.now()): UsageBucket[] {
  const today = dayText(nowMs)
  const byDay = new Map(usage.days.map(day => [day.day, day]))
  const [firstMs, lastMs] = [Date.parse(usage.from), Date.parse(usage.until)]
  const length = (lastMs - firstMs) / DAY_MS + 1 > BARS_MAX ? 7 : 1
  const buckets: UsageBucket[] = []
  for (let endMs = lastMs; endMs >= firstMs; endMs -= length * DAY_MS) {
    const beginMs = Math.max(firstMs, endMs - (length - 1) * DAY_MS)
    const days: string[] = []
    for (let ms = beginMs; ms <= endMs; ms += DAY_MS) days.push(dayText(ms))
    const found = days.flatMap(day => byDay.get(day) ?? [])
    buckets.push({
      from: days[0]!,
      until: days.at(-1)!,
      requests: found.reduce((sum, { requests }) => sum + requests, 0),
      chargedUsd: sumUsd(found.map(({ charged_usd }) => charged_usd)),
      isOpen: days.includes(today),
    })
  }
  return buckets.reverse()
}

function dayText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}
