import { usdText } from '../base/domain/money.ts'
import type { Spend } from '../base/domain/spend.ts'
import { type Customer, emailOrNull } from '../money/accounts/customers.ts'

/** A customer for programs, without its money. */
export function customerJson({ customerId, email, accountTier, createdAt, disabledAt, deletedAt }: Customer) {
  return {
    customer_id: customerId,
    email: emailOrNull(email),
    account_tier: accountTier,
    state: deletedAt !== null ? 'deleted' : disabledAt !== null ? 'disabled' : 'active',
    disabled: disabledAt !== null,
    created_at: createdAt.toISOString(),
    deleted_at: deletedAt?.toISOString() ?? null,
  }
}

/** The spend of a customer or key for programs, as decimal text in USD. */
export function spendJson(spend: Spend) {
  return {
    today_usd: usdText(spend.todayNanos),
    week_usd: usdText(spend.weekNanos),
    month_usd: usdText(spend.monthNanos),
    total_usd: usdText(spend.totalNanos),
  }
}
