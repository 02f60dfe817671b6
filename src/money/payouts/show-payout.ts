import { DAY_MS } from '../../base/domain/durations.ts'
import { hosterCodes, sayOfHoster } from '../../base/domain/hoster-sentences.ts'
import { usd } from '../../base/domain/money.ts'
import { hiddenAccount } from '../../wire/api/payouts.ts'
import type { HosterFunds } from './earnings.ts'
import type { PayoutChange } from './payout-accounts.ts'
import type { PayoutRules } from './payout-batches.ts'
import type { Payout } from './read-payouts.ts'

export function showPayout(payout: Payout) {
  return {
    id: payout.payoutId,
    driver: payout.driver,
    state: payout.state,
    amount_usd: usd(payout.amountNanos),
    paid_usd: usd(payout.paidNanos),
    promotion_usd: usd(payout.promotionNanos),
    account: hiddenAccount(payout.destination),
    reference: payout.reference,
    failure: payout.failure,
    created_at: payout.createdAt.toISOString(),
    ended_at: payout.endedAt?.toISOString() ?? null,
  }
}

export function showFunds(
  {
    balanceNanos,
    heldNanos,
    heldUntil,
    payableNanos,
    promotionalNanos,
    promotionalDay,
    frozenAt,
    freezeReason,
  }: HosterFunds,
  { holdDays, promotion }: PayoutRules,
) {
  const frozenReason = frozenAt === null ? null : (freezeReason ?? sayOfHoster('hoster.no_reason').text)
  return {
    balance_usd: usd(balanceNanos),
    held_usd: usd(heldNanos),
    held_until: heldUntil,
    payable_usd: usd(payableNanos),
    promotion: {
      share_usd: usd(promotionalNanos),
      held_until:
        promotionalDay === null
          ? null
          : utcDay(Date.parse(promotionalDay) + (Math.max(promotion.holdDays, holdDays) + 1) * DAY_MS),
      day_budget_usd: usd(promotion.hosterDayNanos),
    },
    frozen_reason: frozenReason,
    frozen_reason_codes: hosterCodes(frozenReason),
  }
}

const utcDay = (epochMs: number) => new Date(epochMs).toISOString().slice(0, 10)

export function showPayoutChange(change: PayoutChange) {
  return {
    id: change.changeId,
    kind: change.kind,
    driver: change.driver,
    state: change.state,
    account: change.destination === null ? null : hiddenAccount(change.destination),
    holder: change.holder,
    note: change.note,
    customer_id: change.customerId,
    requested_by: change.requestedBy,
    requested_at: change.requestedAt.toISOString(),
    effective_at: change.effectiveAt.toISOString(),
  }
}
