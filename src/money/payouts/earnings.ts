import { nameActingKey } from '../../base/db/audit-log.ts'
import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { Acting } from '../../base/domain/acting.ts'
import type { Nanos } from '../../base/domain/money.ts'

/** What a hoster has: see hoster_funds in the migration of payouts. */
export interface HosterFunds {
  readonly hosterId: string
  readonly name: string
  /** Earned and not paid out. Below zero, the hoster owes it. */
  readonly balanceNanos: Nanos
  /** The part that is too young to be paid out. */
  readonly heldNanos: Nanos
  /** The rest. Below zero when more was taken back than it had. */
  readonly payableNanos: Nanos
  /**
   * The part of the balance that promotion credit paid, and that is held longer or waits for a decision. It cannot be
   * moved.
   */
  readonly promotionalNanos: Nanos
  /** The last day of it that is held longer; null if none is. */
  readonly promotionalDay: string | null
  /**
   * When all of `heldNanos` is payable, a UTC day (YYYY-MM-DD); null if nothing is held. Without the longer hold of
   * promotional earnings.
   */
  readonly heldUntil: string | null
  readonly frozenAt: Date | null
  readonly freezeReason: string | null
}

const FUNDS = `
SELECT h.hoster_id AS "hosterId", h.name, f.balance AS "balanceNanos", f.held AS "heldNanos", f.payable AS "payableNanos",
  f.promotional AS "promotionalNanos", to_char(f.promotional_day, 'YYYY-MM-DD') AS "promotionalDay",
  to_char(f.held_day + $2::integer + 1, 'YYYY-MM-DD') AS "heldUntil", h.payout_frozen_at AS "frozenAt", h.payout_freeze_reason AS "freezeReason"
FROM hoster_funds($1, held_from($3, $2)) f JOIN hoster h ON h.hoster_id = f.hoster`

/** Returns undefined without such a hoster. Reads sums by day, and no requests. */
export async function readFunds(
  sql: Sql,
  hosterId: string,
  holdDays: number,
  nowMs: number,
): Promise<HosterFunds | undefined> {
  const { rows } = await sql.query<HosterFunds>(FUNDS, [[hosterId], holdDays, new Date(nowMs)])
  return rows[0]
}

/** Returns the funds of all hosters, sorted by name. */
export async function listFunds(sql: Sql, holdDays: number, nowMs: number): Promise<HosterFunds[]> {
  const { rows } = await sql.query<HosterFunds>(`${FUNDS} ORDER BY h.name`, [null, holdDays, new Date(nowMs)])
  return rows
}

/** A line of a hoster's statement: what one model earned on one UTC day. Refunds count on the day of their request. */
export interface EarningsLine {
  /** YYYY-MM-DD. */
  readonly day: string
  readonly modelId: string
  readonly requests: bigint
  readonly inputTokens: bigint
  readonly outputTokens: bigint
  /** What customers were charged. */
  readonly grossNanos: Nanos
  readonly shareNanos: Nanos
  readonly feeNanos: Nanos
  /** Given back to customers, and the hoster's part of it. */
  readonly refundedNanos: Nanos
  readonly refundedShareNanos: Nanos
}

/** A span of UTC days (YYYY-MM-DD); `to` is exclusive. Null: no bound. */
export interface DaySpan {
  readonly from: string | null
  readonly to: string | null
}

/** Returns the lines of a span, the oldest first. Over all days their shares less refunds are what the ledger has. */
export async function readEarnings(sql: Sql, hosterId: string, { from, to }: DaySpan): Promise<EarningsLine[]> {
  const { rows } = await sql.query<EarningsLine>(
    `SELECT to_char(day, 'YYYY-MM-DD') AS day, model_id AS "modelId", sum(requests)::bigint AS requests, sum(input_tokens)::bigint AS "inputTokens",
       sum(output_tokens)::bigint AS "outputTokens", sum(cost_nanos)::bigint AS "grossNanos", sum(hoster_share_nanos)::bigint AS "shareNanos",
       sum(fee_nanos)::bigint AS "feeNanos", sum(refunded_nanos)::bigint AS "refundedNanos", sum(refunded_share_nanos)::bigint AS "refundedShareNanos"
     FROM hoster_line WHERE hoster_id = $1 AND ($2::date IS NULL OR day >= $2) AND ($3::date IS NULL OR day < $3)
     GROUP BY hoster_line.day, model_id ORDER BY hoster_line.day, model_id`,
    [hosterId, from, to],
  )
  return rows
}

/** What else changed the account of a hoster. */
export interface Movement {
  readonly kind:
    | 'promotion_excess'
    | 'payout'
    | 'payout_returned'
    | 'earnings_moved'
    | 'clawback'
    | 'clawback_returned'
    | 'opening_balance'
  /** Above zero: to the hoster. */
  readonly amountNanos: Nanos
  readonly at: Date
  readonly reason: string
}

/** Returns the movements that were booked in a span, the oldest first. */
export async function readMovements(sql: Sql, hosterId: string, { from, to }: DaySpan): Promise<Movement[]> {
  const { rows } = await sql.query<Movement>(
    `SELECT t.kind, m.amount_nanos AS "amountNanos", t.at, t.reason FROM hoster_movement m JOIN ledger_tx t USING (tx_id)
     WHERE m.hoster_id = $1 AND ($2::date IS NULL OR t.at >= $2::timestamp AT TIME ZONE 'UTC') AND ($3::date IS NULL OR t.at < $3::timestamp AT TIME ZONE 'UTC')
     ORDER BY m.tx_id`,
    [hosterId, from, to],
  )
  return rows
}

export type MoveVerdict = 'moved' | 'duplicate' | 'move_reused' | 'frozen' | 'not_enough' | 'no_customer' | 'no_hoster'

export interface MovedEarnings {
  readonly verdict: MoveVerdict
  /** The amount that was moved; for 'not_enough', the amount that could be. */
  readonly amount: Nanos
  /** The customer with the credit. */
  readonly customer: string | null
}

/**
 * Gives earnings to the balance of the hoster's customer, held ones too: they are spent here. Promotional ones stay.
 *
 * @param moveId identifies the move, so that it is made once
 * @param amountNanos null: all
 */
export async function moveEarnings(
  pool: Pool,
  {
    moveId,
    hosterId,
    amountNanos,
  }: { readonly moveId: string; readonly hosterId: string; readonly amountNanos: Nanos | null },
  by: Acting,
  nowMs: number,
): Promise<MovedEarnings> {
  return transaction(pool, async sql => {
    await nameActingKey(sql, by)
    const values = [moveId, hosterId, amountNanos, by.personId, by.address, new Date(nowMs)]
    return queryRow<MovedEarnings>(sql, 'SELECT * FROM move_earnings($1, $2, $3, $4, $5, $6)', values)
  })
}

const FOLD_ROWS = 20_000

/**
 * Sums up what settlements and refunds added to the days of hosters. See fold_hoster_days in the migration of payouts.
 */
export async function foldHosterDays(sql: Sql): Promise<number> {
  for (let total = 0; ; ) {
    const { folded } = await queryRow<{ folded: bigint }>(sql, 'SELECT fold_hoster_days($1) AS folded', [FOLD_ROWS])
    total += Number(folded)
    if (folded < FOLD_ROWS) return total
  }
}

/**
 * Returns what a hoster earned from requests of one UTC day, and of all days, less refunds. Reads sums by day, and no
 * requests.
 */
export async function earnedToday(
  sql: Sql,
  hosterId: string,
  nowMs: number,
): Promise<{ readonly todayNanos: Nanos; readonly totalNanos: Nanos }> {
  return queryRow<{ todayNanos: Nanos; totalNanos: Nanos }>(
    sql,
    `SELECT coalesce(sum(hoster_share_nanos - refunded_share_nanos) FILTER (WHERE day = ($2::timestamptz AT TIME ZONE 'UTC')::date), 0)::bigint
         AS "todayNanos",
       coalesce(sum(hoster_share_nanos - refunded_share_nanos), 0)::bigint AS "totalNanos"
     FROM hoster_line WHERE hoster_id = $1`,
    [hosterId, new Date(nowMs)],
  )
}
