import { usdText } from '../base/domain/money.ts'
import type { Spend } from '../base/domain/spend.ts'

/** The spend of a customer or key for programs, as decimal text in USD. */
export function spendJson(spend: Spend) {
  return {
    today_usd: usdText(spend.todayNanos),
    week_usd: usdText(spend.weekNanos),
    month_usd: usdText(spend.monthNanos),
    total_usd: usdText(spend.totalNanos),
  }
}
