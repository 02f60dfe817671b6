import { randomUUID } from 'node:crypto'
import type { Sql } from '../db/pool.ts'
import type { Nanos } from '../domain/money.ts'
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

/** The rules of payouts. */
export interface PayoutRules {
  /** How old a request must be before its share is paid out. */
  readonly holdDays: number
  /** Less is not paid out. */
  readonly minNanos: Nanos
}

/** The operator who acts; null: the command line. */
export interface PayoutActor {
  readonly personId: string
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
  { holdDays, minNanos }: PayoutRules,
  nowMs: number,
): Promise<PreparedBatch> {
  const batchId = randomUUID()
  const { rows } = await sql.query<PreparedHoster>(
    `SELECT p.hoster AS "hosterId", h.name, p.verdict, p.payout AS "payoutId", p.amount AS "amountNanos", p.payable AS "payableNanos"
     FROM ${callOf('prepare_payouts', actor)}($1, $2, $3, $4, $5, held_from($6, $7), $8) p JOIN hoster h ON h.hoster_id = p.hoster
     ORDER BY h.name`,
    [
      actor?.personId ?? null,
      batchId,
      driver.name,
      driver.isLive,
      minNanos,
      new Date(nowMs),
      holdDays,
      actor?.address ?? null,
    ],
  )
  return { batchId: rows.some(({ verdict }) => verdict === 'prepared') ? batchId : null, hosters: rows }
}

export type ApproveVerdict = 'approved' | 'approved_before' | 'cancelled' | 'no_batch' | 'second_operator'

export async function approvePayouts(sql: Sql, actor: PayoutActor | null, batchId: string): Promise<ApproveVerdict> {
  const { rows } = await sql.query<{ verdict: ApproveVerdict }>(
    `SELECT ${callOf('approve_payouts', actor)}($1, $2, $3) AS verdict`,
    [actor?.personId ?? null, batchId, actor?.address ?? null],
  )
  return rows[0]!.verdict
}

/** Cancels what was not sent. Returns how many payouts; null without such a batch. */
export async function cancelPayouts(sql: Sql, actor: PayoutActor | null, batchId: string): Promise<number | null> {
  const { rows } = await sql.query<{ count: number | null }>(
    `SELECT ${callOf('cancel_payouts', actor)}($1, $2, $3) AS count`,
    [actor?.personId ?? null, batchId, actor?.address ?? null],
  )
  return rows[0]!.count
}

export type BankVerdict = 'booked' | 'unchanged' | 'mismatch' | 'not_csv' | 'not_sent' | 'no_payout'

/** Books that a bank made a transfer, or did not. @param failure null: it arrived */
export async function settleBankPayout(
  sql: Sql,
  actor: PayoutActor | null,
  payoutId: string,
  failure: string | null,
): Promise<BankVerdict> {
  const { rows } = await sql.query<{ verdict: BankVerdict }>(
    `SELECT ${callOf('settle_bank_payout', actor)}($1, $2, $3, $4, $5) AS verdict`,
    [actor?.personId ?? null, payoutId, failure === null, failure, actor?.address ?? null],
  )
  return rows[0]!.verdict
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
  const { rows } = await sql.query<{ changed: boolean }>(
    `SELECT ${callOf('freeze_payouts', actor)}($1, $2, $3, $4, $5) AS changed`,
    [actor?.personId ?? null, hosterId, isFrozen, reason, actor?.address ?? null],
  )
  return rows[0]!.changed
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
  const { rows } = await sql.query<{ verdict: ClawBackVerdict }>(
    `SELECT ${callOf('claw_back', actor)}($1, $2, $3, $4, $5, $6, $7) AS verdict`,
    [
      actor?.personId ?? null,
      order.clawbackId,
      order.hosterId,
      order.amountNanos,
      order.reversalId,
      order.reason,
      actor?.address ?? null,
    ],
  )
  return rows[0]!.verdict
}

/** Reverses a claw-back. Returns false if that was done before. */
export async function returnClawback(
  sql: Sql,
  actor: PayoutActor | null,
  clawbackId: string,
  reason: string,
): Promise<boolean> {
  const { rows } = await sql.query<{ done: boolean }>(
    `SELECT ${callOf('return_clawback', actor)}($1, $2, $3, $4) AS done`,
    [actor?.personId ?? null, clawbackId, reason, actor?.address ?? null],
  )
  return rows[0]!.done
}
