import type { Pool } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { ApiError } from '../base/domain/errors.ts'
import { type Nanos, usd } from '../base/domain/money.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import { joined, type Said } from '../base/domain/said.ts'
import { balanceOf } from '../money/ledger/accounts/read-balance.ts'
import type { RefundRequest } from '../wire/api/operator/customer-changes.ts'
import type { RefundResult } from '../wire/api/operator/customers.ts'
import { type Actor, act } from './operator-action.ts'

/**
 * Refunds a request like `switchyard ledger refund`. Throws `request_not_found`, and `invalid_value` for an amount
 * above the charge, a free request, or one that was refunded by another amount before.
 */
export function refund(
  pool: Pool,
  actor: Actor,
  customerId: string,
  { requestId, amountNanos, reason, isDryRun }: RefundRequest,
): Promise<RefundResult> {
  return act(
    pool,
    actor,
    async sql => {
      const row = await queryRow<RefundRow>(sql, 'SELECT * FROM refund_by_operator($1, $2, $3, $4, $5, $6)', [
        actor.session,
        customerId,
        requestId,
        amountNanos,
        reason,
        actor.address,
      ])
      requireRefunded(row)
      const balance = await balanceOf(sql, customerId)
      const isNew = row.verdict === 'refunded'
      return {
        request_id: requestId,
        refunded: isNew && !isDryRun,
        would_refund: isNew && isDryRun,
        dry_run: isDryRun,
        charged_usd: usd(row.charged),
        amount_usd: usd(row.amount),
        hoster_share_usd: usd(row.hoster_share),
        fee_usd: usd(row.fee),
        balance_usd: usd(balance.postedNanos),
      }
    },
    isDryRun,
  )
}

interface RefundRow {
  readonly verdict: 'refunded' | 'duplicate' | 'refunded_before' | 'above_charge' | 'free' | 'no_request'
  readonly charged: Nanos
  readonly amount: Nanos
  readonly hoster_share: Nanos
  readonly fee: Nanos
}

function requireRefunded({ verdict, charged, amount }: RefundRow): void {
  const invalid = (message: Said, param: string) => {
    throw new ApiError('invalid_value', { message: joined(message, sayRefusal('refusal.nothing_changed')), param })
  }
  if (verdict === 'no_request') {
    throw new ApiError('request_not_found', {
      message: sayRefusal('refusal.no_settled_request'),
    })
  }
  if (verdict === 'free') invalid(sayRefusal('refusal.request_was_free'), 'request_id')
  if (verdict === 'above_charge') invalid(sayRefusal('refusal.above_charge', { charged: usd(charged) }), 'amount_usd')
  if (verdict === 'refunded_before')
    invalid(sayRefusal('refusal.refunded_before', { amount: usd(amount) }), 'request_id')
}
