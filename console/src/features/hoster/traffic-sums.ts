import { t } from '@lingui/core/macro'
import type { HosterTraffic } from '#api/hoster-console.ts'
import { utcDayText } from '../../format/time-text.ts'

type Line = HosterTraffic['data'][number]

/** Outcomes of attempts that lower the trust score: `faultOutcomes` in src/market/trust/request-tally.ts. */
const faults: ReadonlySet<string> = new Set([
  'connect_failed',
  'server_error',
  'first_token_timeout',
  'malformed',
  'empty',
])

export function isFault(outcome: string): boolean {
  return faults.has(outcome)
}

export const outcomeTexts: Readonly<Record<string, string>> = {
  connect_failed: t`no connection to your server`,
  server_error: t`your server answered with an error`,
  first_token_timeout: t`no first token in time`,
  malformed: t`the answer could not be read`,
  empty: t`the answer was empty`,
  busy: t`your server was busy (429)`,
  credential_rejected: t`your server refused our key`,
  request_rejected: t`your server refused the prompt`,
  not_sent: t`ended before your server got it`,
  cancelled: t`the client or the gateway ended it`,
}

interface Sums {
  readonly answered: number
  readonly faults: number
  readonly attempts: number
}

function sumsOf(lines: readonly Line[]): Sums {
  const answered = lines.reduce((sum, line) => sum + line.answered, 0)
  const failures = lines.flatMap(({ failed }) => Object.entries(failed))
  const count = (entries: typeof failures) => entries.reduce((sum, [, attempts]) => sum + attempts, 0)
  return {
    answered,
    faults: count(failures.filter(([outcome]) => isFault(outcome))),
    attempts: answered + count(failures),
  }
}

/** The sums of each model, the one with the most attempts first. */
export function byModel(data: readonly Line[]) {
  return [...Map.groupBy(data, ({ model }) => model)]
    .map(([model, lines]) => {
      const failed: Record<string, number> = {}
      for (const line of lines)
        for (const [outcome, attempts] of Object.entries(line.failed))
          failed[outcome] = (failed[outcome] ?? 0) + attempts
      const tokens = (side: 'input_tokens' | 'output_tokens') => ({
        reported: lines.reduce((sum, line) => sum + line[side].reported, 0),
        counted: lines.reduce((sum, line) => sum + line[side].counted, 0),
        billed: lines.reduce((sum, line) => sum + line[side].billed, 0),
      })
      return {
        model,
        ...sumsOf(lines),
        failed,
        input_tokens: tokens('input_tokens'),
        output_tokens: tokens('output_tokens'),
      }
    })
    .sort((a, b) => b.attempts - a.attempts)
}

const DAY_MS = 86_400_000
/** More bars than this are too thin on a phone. */
const BARS_MAX = 31

/** The sums of each day of a span, or of as many days together as make at most 31 bars. The last one is not over. */
export function sumByDay(data: readonly Line[], { days, until }: { readonly days: number; readonly until: string }) {
  const together = Math.ceil(days / BARS_MAX)
  const count = Math.ceil(days / together)
  return Array.from({ length: count }, (_, index) => {
    const lastMs = Date.parse(until) - (count - 1 - index) * together * DAY_MS
    const firstMs = lastMs - (together - 1) * DAY_MS
    const lines = data.filter(({ day }) => Date.parse(day) >= firstMs && Date.parse(day) <= lastMs)
    const { answered, faults: own, attempts } = sumsOf(lines)
    const isOpen = index === count - 1
    const label = utcDayText(new Date(firstMs).toISOString().slice(0, 10))
    return { label, answered, faults: own, others: attempts - answered - own, isOpen }
  })
}
