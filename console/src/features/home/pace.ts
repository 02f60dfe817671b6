import { plural, t } from '@lingui/core/macro'
import type { TokenUsageReport } from '#api/reports.ts'
import { sumUsd } from '../../format/usd-text.ts'

const PACE_DAYS = 7

/** Says how long the balance lasts at the mean spend of the last 7 full days. */
export function paceText(balanceUsd: number, month: TokenUsageReport | undefined): string {
  if (month === undefined) return ' '
  const full = month.timeseries.slice(-1 - PACE_DAYS, -1).map(({ cost_usd }) => cost_usd)
  const perDay = sumUsd(full) / PACE_DAYS
  if (perDay === 0) {
    const isFirstDay = (month.timeseries.at(-1)?.cost_usd ?? 0) > 0
    return isFirstDay ? t`the pace appears after the first full day` : t`no spend in the last 7 days`
  }
  if (balanceUsd <= 0) return t`nothing left`
  const days = balanceUsd / perDay
  if (days < 1) return t`less than a day at this week's pace`
  if (days > 999) return t`more than 999 days at this week's pace`
  return plural(Math.floor(days), { one: "about # day at this week's pace", other: "about # days at this week's pace" })
}
