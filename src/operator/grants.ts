import { randomUUID } from 'node:crypto'
import type { Pool, Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { ApiError } from '../base/domain/errors.ts'
import { usd } from '../base/domain/money.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import { findCustomer, promoteAccountTier } from '../money/accounts/customers.ts'
import { hasPaidCredit } from '../money/ledger/accounts/has-paid-credit.ts'
import { balanceOf, readBalance } from '../money/ledger/accounts/read-balance.ts'
import type { CreditEvidence } from '../money/ledger/credit-evidence.ts'
import type { GrantOrder } from '../wire/api/operator/customer-changes.ts'
import type { GrantResult } from '../wire/api/operator/customers.ts'
import { type Actor, act } from './operator-action.ts'

type Verdict = 'granted' | 'waiting' | 'duplicate' | 'ref_taken' | 'no_account'
type Decision = 'granted' | 'rejected' | 'own_request' | 'decided_before' | 'ref_taken' | 'no_grant'

/**
 * Grants credit like `switchyard credit grant`, or asks for a second operator: see request_grant in
 * sql/functions/operator/grants.sql. Throws `customer_not_found`, and `invalid_value` for a ref that was used
 * otherwise.
 */
export function grant(
  pool: Pool,
  evidence: Pick<CreditEvidence, 'add'>,
  actor: Actor,
  customerId: string,
  { amountNanos, reason, ref: givenRef, isPromotion, isDryRun }: GrantOrder,
): Promise<GrantResult> {
  const grantId = randomUUID()
  const ref = givenRef ?? `console-${grantId}`
  return act(
    pool,
    actor,
    async sql => {
      const customer = await findCustomer(sql, customerId)
      const before = await readBalance(sql, customerId)
      if (customer === undefined || customer.deletedAt !== null || before === undefined) {
        throw new ApiError('customer_not_found')
      }
      const isFirst = !(await hasPaidCredit(sql, customerId))
      const verdict = await ask<Verdict>(
        sql,
        'SELECT request_grant_by_operator($1, $2, $3, $4, $5, $6, $7, $8) AS verdict',
        [actor.session, grantId, customerId, amountNanos, ref, reason, isPromotion, actor.address],
      )
      if (verdict === 'no_account') throw new ApiError('customer_not_found')
      if (verdict === 'ref_taken') throw refTaken(ref)
      if (verdict === 'granted') await evidence.add(sql, 'credit', ref, { customerId, amountNanos })
      const isPromoted = verdict === 'granted' && isFirst && !isPromotion && (await promote(sql, customerId))
      const after = await balanceOf(sql, customerId)
      return {
        state: verdict,
        dry_run: isDryRun,
        grant_id: isDryRun || verdict === 'duplicate' ? null : grantId,
        ref: isDryRun ? givenRef : ref,
        amount_usd: usd(amountNanos),
        is_promotion: isPromotion,
        balance_before_usd: usd(before.postedNanos),
        balance_after_usd: usd(after.postedNanos),
        tier: customer.accountTier,
        tier_after: isPromoted ? 'standard' : customer.accountTier,
      }
    },
    isDryRun,
  )
}

/** Approves or rejects a grant that waits. Throws `not_found`, `role_not_allowed`, `invalid_value`, and `customer_not_found` to approve it for a customer that was deleted. */
export function decideGrant(
  pool: Pool,
  evidence: Pick<CreditEvidence, 'add'>,
  actor: Actor,
  grantId: string,
  isApproved: boolean,
): Promise<{ state: 'granted' | 'rejected' }> {
  return act(pool, actor, async sql => {
    const { rows } = await sql.query<{ customerId: string; ref: string; isPromotion: boolean }>(
      'SELECT customer_id AS "customerId", ref, is_promotion AS "isPromotion" FROM grant_request WHERE grant_id = $1',
      [grantId],
    )
    const [waiting] = rows
    if (waiting === undefined) throw new ApiError('not_found', { message: sayRefusal('refusal.no_grant') })
    const customer = await findCustomer(sql, waiting.customerId)
    if (isApproved && customer?.deletedAt !== null) throw new ApiError('customer_not_found')
    const isFirst = !(await hasPaidCredit(sql, waiting.customerId))
    const decision = await ask<Decision>(sql, 'SELECT decide_grant_by_operator($1, $2, $3, $4) AS verdict', [
      actor.session,
      grantId,
      isApproved,
      actor.address,
    ])
    switch (decision) {
      case 'granted':
        await evidence.add(sql, 'credit', waiting.ref, { customerId: waiting.customerId })
        if (isFirst && !waiting.isPromotion) await promote(sql, waiting.customerId)
        return { state: decision }
      case 'rejected':
        return { state: decision }
      case 'own_request':
        throw new ApiError('role_not_allowed', {
          message: sayRefusal('refusal.own_grant'),
        })
      case 'ref_taken':
        throw refTaken(waiting.ref)
      default:
        throw new ApiError('not_found', { message: sayRefusal('refusal.grant_decided') })
    }
  })
}

function promote(sql: Sql, customerId: string): Promise<boolean> {
  return promoteAccountTier(sql, { customerId, from: 'free', to: 'standard' })
}

async function ask<T extends string>(sql: Sql, statement: string, values: unknown[]): Promise<T> {
  const { verdict } = await queryRow<{ verdict: T }>(sql, statement, values)
  return verdict
}

function refTaken(ref: string): ApiError {
  return new ApiError('invalid_value', {
    message: sayRefusal('refusal.ref_taken', { ref }),
    param: 'ref',
  })
}
