import { noteAction } from '../base/db/audit-log.ts'
import type { Pool, Sql } from '../base/db/pool.ts'
import { refuseOutage } from '../base/db/refuse-outage.ts'
import { ApiError } from '../base/domain/errors.ts'
import { usd } from '../base/domain/money.ts'
import { type PayoutDriverName, payoutLabels } from '../base/domain/money-drivers.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import { joined, type Said } from '../base/domain/said.ts'
import type { Clock } from '../base/runtime/scheduler.ts'
import { listFunds, readFunds } from '../money/payouts/earnings.ts'
import { listPayoutChanges } from '../money/payouts/payout-accounts.ts'
import {
  approvePayouts,
  cancelPayouts,
  clawBack,
  decidePromotionReview,
  type Freeze,
  freezePayouts,
  type PayoutRules,
  preparePayouts,
  returnClawback,
  settleBankPayout,
} from '../money/payouts/payout-batches.ts'
import type { PayoutDriver } from '../money/payouts/payout-driver.ts'
import type { PayoutSync } from '../money/payouts/payout-sync.ts'
import { listPromotionReviews, type PromotionReview } from '../money/payouts/promotions.ts'
import { type Clawback, clawbacksOfHoster, type Dispute, listDisputes } from '../money/payouts/read-clawbacks.ts'
import { findBatch, listBatches, type Payout, type PayoutBatch, payoutsOfBatch } from '../money/payouts/read-payouts.ts'
import { showFunds, showPayout, showPayoutChange } from '../money/payouts/show-payout.ts'
import { pageOf } from '../wire/api/cursor.ts'
import type {
  ApprovedBatch,
  ClawBackRequest,
  ClawedBack,
  HosterFundsShown,
  HosterMoneyShown,
  PayoutBatches,
  PayoutBatchShown,
  PreparedBatchShown,
  PromotionReviewsShown,
  ReviewDecision,
  SettledBatchShown,
} from '../wire/api/operator/payouts.ts'
import { type Actor, act } from './operator-action.ts'

/** Payouts of hosters, for operators. Every change is in the audit log. All methods reject with ApiError. */
export interface PayoutService {
  funds(): Promise<HosterFundsShown>
  list(limit: number, after: string | null): Promise<PayoutBatches>
  one(batchId: string): Promise<PayoutBatchShown>
  prepare(actor: Actor, driver: PayoutDriverName): Promise<PreparedBatchShown>
  approve(actor: Actor, batchId: string): Promise<ApprovedBatch>
  /** Sends what is approved and was not sent. A repeat sends nothing twice. */
  settle(actor: Actor, batchId: string): Promise<SettledBatchShown>
  cancel(actor: Actor, batchId: string): Promise<PayoutBatchShown>
  /** Promotional earnings that related customers paid: those that wait, and the newest decisions. */
  reviews(): Promise<PromotionReviewsShown>
  /** Releases or withholds them. */
  decide(actor: Actor, reviewId: string, decision: ReviewDecision): Promise<PromotionReviewsShown>
  /** Books the result of a bank transfer. @param failure null: it arrived */
  book(actor: Actor, payoutId: string, failure: string | null): Promise<PayoutBatchShown>
  /** What one hoster has, and what can be taken from it. */
  money(hosterId: string): Promise<HosterMoneyShown>
  freeze(actor: Actor, freeze: Freeze): Promise<void>
  clawBack(actor: Actor, hosterId: string, order: ClawBackRequest): Promise<ClawedBack>
  returnClawback(actor: Actor, clawbackId: string, reason: string): Promise<void>
}

export function createPayoutService(deps: {
  readonly pool: Pool
  /** For changes: see Database in start/compose. */
  readonly deskPool: Pool
  readonly clock: Clock
  readonly drivers: readonly PayoutDriver[]
  readonly sync: PayoutSync
  readonly rules: PayoutRules
}): PayoutService {
  const { pool, deskPool, clock, drivers, sync, rules } = deps

  async function one(sql: Sql, batchId: string): Promise<PayoutBatchShown> {
    const batch = await findBatch(sql, batchId)
    if (batch === undefined) throw noBatch()
    return {
      ...showBatch(batch),
      reviews: (await listPromotionReviews(sql, batchId)).map(showReview),
      data: (await payoutsOfBatch(sql, batchId)).map(showOperatorPayout),
    }
  }

  const reviews = async (sql: Sql) => ({ data: (await listPromotionReviews(sql, null)).map(showReview) })

  return {
    async funds() {
      const hosters = await listFunds(pool, rules.holdDays, clock.epochMs()).catch(refuseOutage)
      return { data: hosters.map(each => ({ hoster_id: each.hosterId, hoster: each.name, ...showFunds(each, rules) })) }
    },
    async list(limit, after) {
      const rows = await listBatches(pool, { limit: limit + 1, after }).catch(refuseOutage)
      const { page, next_cursor } = pageOf(rows, limit, row => row.batchId)
      return {
        data: page.map(showBatch),
        next_cursor,
      }
    },
    one: batchId => one(pool, batchId).catch(refuseOutage),
    async prepare(actor, name) {
      const driver = drivers.find(each => each.name === name)
      if (driver === undefined)
        throw invalid('driver', sayRefusal('refusal.no_payout_driver', { driver: payoutLabels[name] }))
      return act(deskPool, actor, async sql => {
        const { batchId, hosters } = await preparePayouts(sql, actor, driver, rules, clock.epochMs())
        return {
          batch: batchId === null ? null : await one(sql, batchId),
          hosters: hosters.map(each => ({
            hoster_id: each.hosterId,
            hoster: each.name,
            result: each.verdict,
            amount_usd: usd(each.amountNanos),
            payable_usd: usd(each.payableNanos),
          })),
        }
      })
    },
    approve: (actor, batchId) =>
      act(deskPool, actor, async sql => {
        const result = await approvePayouts(sql, actor, batchId)
        if (result === 'no_batch') throw noBatch()
        if (result === 'undecided') {
          throw invalid('batch_id', sayRefusal('refusal.batch_has_reviews'))
        }
        if (result === 'cancelled') throw invalid('batch_id', sayRefusal('refusal.batch_cancelled'))
        return { result, batch: await one(sql, batchId) }
      }),
    async settle(actor, batchId) {
      const batch = await findBatch(pool, batchId).catch(refuseOutage)
      if (batch === undefined) throw noBatch()
      if (batch.state === 'prepared') throw invalid('batch_id', sayRefusal('refusal.batch_not_approved'))
      if (batch.state === 'approved' && !sync.maySettle(batch))
        throw invalid('batch_id', sayRefusal('refusal.payouts_not_set_up', { driver: payoutLabels[batch.driver] }))
      const settled = await sync.settle(batchId).catch(refuseOutage)
      const { file: _, ...detail } = settled
      const { personId, keyId, address } = actor
      const entry = { action: 'payout.settled', personId, keyId, address, subject: batchId, detail } as const
      await act(deskPool, actor, sql => noteAction(sql, entry))
      return { ...settled, batch: await one(pool, batchId).catch(refuseOutage) }
    },
    cancel: (actor, batchId) =>
      act(deskPool, actor, async sql => {
        if ((await cancelPayouts(sql, actor, batchId)) === null) throw noBatch()
        return one(sql, batchId)
      }),
    reviews: () => reviews(pool).catch(refuseOutage),
    decide: (actor, reviewId, { isReleased, reason }) =>
      act(deskPool, actor, async sql => {
        if (await decidePromotionReview(sql, actor, { reviewId, isReleased, reason })) return reviews(sql)
        throw new ApiError('not_found', { message: sayRefusal('refusal.no_review') })
      }),
    book: (actor, payoutId, failure) =>
      act(deskPool, actor, async sql => {
        const verdict = await settleBankPayout(sql, actor, payoutId, failure)
        if (verdict === 'not_csv') throw invalid('payout_id', sayRefusal('refusal.payout_by_provider'))
        if (verdict === 'not_sent') throw invalid('payout_id', sayRefusal('refusal.payout_not_sent'))
        const { rows } = await sql.query<{ id: string }>('SELECT batch_id AS id FROM payout WHERE payout_id = $1', [
          payoutId,
        ])
        if (rows[0] === undefined) throw new ApiError('not_found', { message: sayRefusal('refusal.no_payout') })
        return one(sql, rows[0].id)
      }),
    async money(hosterId) {
      const [funds, changes, clawbacks, disputes] = await Promise.all([
        readFunds(pool, hosterId, rules.holdDays, clock.epochMs()),
        listPayoutChanges(pool, hosterId),
        clawbacksOfHoster(pool, hosterId),
        listDisputes(pool),
      ]).catch(refuseOutage)
      if (funds === undefined) throw new ApiError('hoster_not_found')
      return {
        hoster_id: hosterId,
        ...showFunds(funds, rules),
        payout_changes: changes.map(showPayoutChange),
        clawbacks: clawbacks.map(showClawback),
        disputes: disputes.map(showDispute),
      }
    },
    freeze: (actor, freeze) =>
      act(deskPool, actor, async sql => {
        const { rows } = await sql.query('SELECT FROM hoster WHERE hoster_id = $1', [freeze.hosterId])
        if (rows.length === 0) throw new ApiError('hoster_not_found')
        await freezePayouts(sql, actor, freeze)
      }),
    clawBack: (actor, hosterId, order) =>
      act(deskPool, actor, async sql => {
        const verdict = await clawBack(sql, actor, { ...order, hosterId })
        if (verdict === 'taken' || verdict === 'duplicate') {
          return { clawback_id: order.clawbackId, is_repeat: verdict === 'duplicate' }
        }
        if (verdict === 'no_hoster') throw new ApiError('hoster_not_found')
        if (verdict === 'no_dispute') throw invalid('dispute_id', sayRefusal('refusal.no_dispute'))
        throw invalid(
          'amount_usd',
          verdict === 'above_dispute' ? sayRefusal('refusal.above_dispute') : sayRefusal('refusal.above_earnings'),
        )
      }),
    returnClawback: (actor, clawbackId, reason) =>
      act(deskPool, actor, async sql => {
        if (await returnClawback(sql, actor, clawbackId, reason)) return
        throw new ApiError('not_found', { message: sayRefusal('refusal.no_claw_back') })
      }),
  }
}

function showBatch(batch: PayoutBatch) {
  return {
    id: batch.batchId,
    driver: batch.driver,
    state: batch.state,
    payouts: Number(batch.payouts),
    amount_usd: usd(batch.amountNanos),
    paid_usd: usd(batch.paidNanos),
    mismatches: Number(batch.mismatches),
    prepared_by: batch.preparedBy,
    prepared_at: batch.preparedAt.toISOString(),
    approved_by: batch.approvedBy,
    approved_at: batch.approvedAt?.toISOString() ?? null,
  }
}

function showOperatorPayout(payout: Payout) {
  return {
    ...showPayout(payout),
    account: payout.destination,
    holder: payout.holder,
    hoster_id: payout.hosterId,
    hoster: payout.hosterName,
    provider_ref: payout.providerRef,
    mismatch: payout.mismatch,
  }
}

function showReview(review: PromotionReview) {
  return {
    id: review.reviewId,
    hoster_id: review.hosterId,
    hoster: review.hosterName,
    share_usd: usd(review.shareNanos),
    evidence: [...review.evidence],
    opened_at: review.openedAt.toISOString(),
    state: review.state,
    reason: review.reason,
    decided_by: review.decidedBy,
    decided_at: review.decidedAt?.toISOString() ?? null,
  }
}

function showClawback(clawback: Clawback) {
  return {
    id: clawback.clawbackId,
    cause: clawback.cause,
    amount_usd: usd(clawback.amountNanos),
    reason: clawback.reason,
    dispute_id: clawback.reversalId,
    made_by: clawback.madeBy,
    at: clawback.at.toISOString(),
    returned_at: clawback.returnedAt?.toISOString() ?? null,
    return_reason: clawback.returnReason,
  }
}

function showDispute({ reversalId, reference, email, leftNanos, reason, at }: Dispute) {
  return { id: reversalId, reference, email, left_usd: usd(leftNanos), reason, at: at.toISOString() }
}

function noBatch(): ApiError {
  return new ApiError('not_found', { message: sayRefusal('refusal.no_batch') })
}

function invalid(param: string, message: Said): ApiError {
  return new ApiError('invalid_value', { param, message: joined(message, sayRefusal('refusal.nothing_changed')) })
}
