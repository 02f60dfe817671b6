import { randomUUID } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { PayoutDriver } from './payout-driver.ts'

/** Why a hoster is, or is not, in a batch: see prepare_payouts in the migration of payouts. */
export type PrepareVerdict =
  | 'prepared'
  | 'below_minimum'
  | 'frozen'
  | 'no_account'
  | 'account_not_ready'
  | 'other_driver'

export interface PreparedHoster {
  readonly hosterId: string
  readonly name: string
  readonly verdict: PrepareVerdict
  readonly payoutId: string | null
  /** 0 unless prepared. */
  readonly amountNanos: Nanos
  /** Before the payout. Below zero for a debt. */
  readonly payableNanos: Nanos
}

export interface PreparedBatch {
  /** Null: there was nothing to pay, and no batch was made. */
  readonly batchId: string | null
  readonly hosters: readonly PreparedHoster[]
}

/** The operator's budget for what promotion credit pays to hosters. */
export interface PromotionRules {
  /** How old a request must be before such a share is paid out; at least `holdDays`. */
  readonly holdDays: number
  /** The most for one hoster and UTC day, and for all hosters. */
  readonly hosterDayNanos: Nanos
  readonly dayNanos: Nanos
  /** It pays a hoster at most what the fees on other requests to it brought in the 30 days up to the day. */
  readonly needsPayers: boolean
}

/** The rules of payouts. */
export interface PayoutRules {
  /** How old a request must be before its share is paid out. */
  readonly holdDays: number
  /** Less is not paid out. */
  readonly minNanos: Nanos
  /** What promotion credit pays to hosters. */
  readonly promotion: PromotionRules
  /** How long a change of where money goes waits. */
  readonly accountWaitHours: number
}

/** The operator who acts; null: the command line. */
export interface PayoutActor {
  /** Proves the session: see Actor in operator/operator-action.ts. */
  readonly session: Buffer
  readonly address: string
}

/** Calls a function of the migration of payouts, or its counterpart for operators. */
function callOf(name: string, actor: PayoutActor | null): string {
  return actor === null ? name : `${name}_by_operator`
}

/** Makes a batch of what is payable by one driver. Two calls at once pay nobody twice. */
export async function preparePayouts(
  sql: Sql,
  actor: PayoutActor | null,
  driver: Pick<PayoutDriver, 'name' | 'isLive'>,
  rules: PayoutRules,
  nowMs: number,
): Promise<PreparedBatch> {
  const batchId = randomUUID()
  const { rows } = await sql.query<PreparedHoster>(
    `SELECT p.hoster AS "hosterId", h.name, p.verdict, p.payout AS "payoutId", p.amount AS "amountNanos", p.payable AS "payableNanos"
     FROM ${callOf('prepare_payouts', actor)}($1, $2, $3, $4, $5, $6, ROW($7, $8, $9, $10, $11)::payout_rules, $12) p JOIN hoster h ON h.hoster_id = p.hoster
     ORDER BY h.name`,
    [
      actor?.session ?? null,
      batchId,
      driver.name,
      driver.isLive,
      rules.minNanos,
      new Date(nowMs),
      ...rulesRow(rules),
      actor?.address ?? null,
    ],
  )
  return { batchId: rows.some(({ verdict }) => verdict === 'prepared') ? batchId : null, hosters: rows }
}

/** The fields of `payout_rules`. */
export function rulesRow({ holdDays, promotion }: PayoutRules): unknown[] {
  const { hosterDayNanos, dayNanos, needsPayers } = promotion
  return [holdDays, promotion.holdDays, hosterDayNanos, dayNanos, needsPayers]
}

export type ApproveVerdict = 'approved' | 'approved_before' | 'cancelled' | 'no_batch' | 'second_operator' | 'undecided'

export async function approvePayouts(sql: Sql, actor: PayoutActor | null, batchId: string): Promise<ApproveVerdict> {
  const { verdict } = await queryRow<{ verdict: ApproveVerdict }>(
    sql,
    `SELECT ${callOf('approve_payouts', actor)}($1, $2, $3) AS verdict`,
    [actor?.session ?? null, batchId, actor?.address ?? null],
  )
  return verdict
}

/** Cancels what was not sent. Returns how many payouts; null without such a batch. */
export async function cancelPayouts(sql: Sql, actor: PayoutActor | null, batchId: string): Promise<number | null> {
  const { count } = await queryRow<{ count: number | null }>(
    sql,
    `SELECT ${callOf('cancel_payouts', actor)}($1, $2, $3) AS count`,
    [actor?.session ?? null, batchId, actor?.address ?? null],
  )
  return count
}

/**
 * Lets the promotional earnings of a review be paid, or gives them back to the promotion account. Returns whether it
 * waited.
 */
export async function decidePromotionReview(
  sql: Sql,
  actor: PayoutActor | null,
  {
    reviewId,
    isReleased,
    reason,
  }: { readonly reviewId: string; readonly isReleased: boolean; readonly reason: string },
): Promise<boolean> {
  const { done } = await queryRow<{ done: boolean }>(
    sql,
    `SELECT ${callOf('decide_promotion_review', actor)}($1, $2, $3, $4, $5) AS done`,
    [actor?.session ?? null, reviewId, isReleased, reason, actor?.address ?? null],
  )
  return done
}

export type BankVerdict = 'booked' | 'unchanged' | 'mismatch' | 'not_csv' | 'not_sent' | 'no_payout'

/** Books that a bank made a transfer, or did not. @param failure null: it arrived */
export async function settleBankPayout(
  sql: Sql,
  actor: PayoutActor | null,
  payoutId: string,
  failure: string | null,
): Promise<BankVerdict> {
  const { verdict } = await queryRow<{ verdict: BankVerdict }>(
    sql,
    `SELECT ${callOf('settle_bank_payout', actor)}($1, $2, $3, $4, $5) AS verdict`,
    [actor?.session ?? null, payoutId, failure === null, failure, actor?.address ?? null],
  )
  return verdict
}

export interface Freeze {
  readonly hosterId: string
  /** False: the hoster is paid again. */
  readonly isFrozen: boolean
  readonly reason: string
}

/** Freezes the payouts of a hoster, or releases them. Returns whether something changed. */
export async function freezePayouts(
  sql: Sql,
  actor: PayoutActor | null,
  { hosterId, isFrozen, reason }: Freeze,
): Promise<boolean> {
  const { changed } = await queryRow<{ changed: boolean }>(
    sql,
    `SELECT ${callOf('set_payout_freeze', actor)}($1, $2, $3, $4, $5) AS changed`,
    [actor?.session ?? null, hosterId, isFrozen, reason, actor?.address ?? null],
  )
  return changed
}

export type ClawBackVerdict = 'taken' | 'duplicate' | 'above_dispute' | 'above_earnings' | 'no_dispute' | 'no_hoster'

export interface ClawBackOrder {
  /** Identifies the claw-back, so that it is made once. */
  readonly clawbackId: string
  readonly hosterId: string
  readonly amountNanos: Nanos
  /** The dispute of a payment; null: proven fraud. */
  readonly reversalId: string | null
  readonly reason: string
}

/** Takes earnings back. The hoster may owe them then. */
export async function clawBack(sql: Sql, actor: PayoutActor | null, order: ClawBackOrder): Promise<ClawBackVerdict> {
  const { verdict } = await queryRow<{ verdict: ClawBackVerdict }>(
    sql,
    `SELECT ${callOf('claw_back', actor)}($1, $2, $3, $4, $5, $6, $7) AS verdict`,
    [
      actor?.session ?? null,
      order.clawbackId,
      order.hosterId,
      order.amountNanos,
      order.reversalId,
      order.reason,
      actor?.address ?? null,
    ],
  )
  return verdict
}

/** Reverses a claw-back. Returns false if that was done before. */
export async function returnClawback(
  sql: Sql,
  actor: PayoutActor | null,
  clawbackId: string,
  reason: string,
): Promise<boolean> {
  const { done } = await queryRow<{ done: boolean }>(
    sql,
    `SELECT ${callOf('return_clawback', actor)}($1, $2, $3, $4) AS done`,
    [actor?.session ?? null, clawbackId, reason, actor?.address ?? null],
  )
  return done
}
