import { hiddenAccount } from '../api/payouts.ts'
import { usd } from '../domain/money.ts'
import type { HosterFunds } from './earnings.ts'
import type { Payout } from './read-payouts.ts'

export function showPayout(payout: Payout) {
  return {
    id: payout.payoutId,
    driver: payout.driver,
    state: payout.state,
    amount_usd: usd(payout.amountNanos),
    paid_usd: usd(payout.paidNanos),
    account: hiddenAccount(payout.destination),
    reference: payout.reference,
    failure: payout.failure,
    created_at: payout.createdAt.toISOString(),
    ended_at: payout.endedAt?.toISOString() ?? null,
  }
}

export function showFunds({ balanceNanos, heldNanos, heldUntil, payableNanos, frozenAt, freezeReason }: HosterFunds) {
  return {
    balance_usd: usd(balanceNanos),
    held_usd: usd(heldNanos),
    held_until: heldUntil,
    payable_usd: usd(payableNanos),
    frozen_reason: frozenAt === null ? null : (freezeReason ?? 'The operator gave no reason.'),
  }
}
