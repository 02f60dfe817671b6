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
  /** Null, as the next three: these sums are not counted. */
  readonly revenueUsd: number | null
  /** The margin of the revenue whose cost is known; null also if there is none. */
  readonly marginUsd: number | null
  /** From 0 to 1; null also without a request. */
  readonly failedShare: number | null
  /** Mean over the requests that did not fail; null also without one. */
  readonly meanLatencyMs: number | null
}

interface UsageDays {
  /** UTC days such as 2026-11-24, both included. */
  readonly from: string
  readonly until: string
  readonly days: readonly UsageDay[]
}

interface UsageDay {
  readonly day: string
  readonly requests: number
  readonly charged_usd: number
  readonly failed: number | null
  readonly revenue_usd: number | null
  readonly margin_usd: number | null
  readonly mean_latency_ms: number | null
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
      ...moreSums(found),
    })
  }
  return buckets.reverse()
}

function moreSums(days: readonly UsageDay[]) {
  const sum = (figures: readonly (number | null)[]) =>
    figures.reduce((total: number | null, each) => (total === null || each === null ? null : total + each), 0)
  const usd = (name: 'revenue_usd' | 'margin_usd') => {
    const known = days.flatMap(day => day[name] ?? [])
    return known.length === 0 && days.length > 0 ? null : sumUsd(known)
  }
  const requests = days.reduce((total, day) => total + day.requests, 0)
  const failed = sum(days.map(day => day.failed))
  const answered = failed === null ? 0 : requests - failed
  const latencyMs = days.reduce(
    (total, day) => total + (day.mean_latency_ms ?? 0) * (day.requests - (day.failed ?? 0)),
    0,
  )
  return {
    revenueUsd: usd('revenue_usd'),
    marginUsd: usd('margin_usd'),
    failedShare: failed === null || requests === 0 ? null : failed / requests,
    meanLatencyMs: answered === 0 ? null : latencyMs / answered,
  }
}

function dayText(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10)
}
