import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { type PayoutRules, rulesRow } from './payout-batches.ts'

// What promotion credit pays to hosters: see the migration of promotional earnings.

/** The promotional earnings of a hoster on one UTC day. */
export interface PromotionDay {
  /** YYYY-MM-DD. */
  readonly day: string
  readonly shareNanos: Nanos
  /** What the budget paid of it; null while it is held. */
  readonly paidNanos: Nanos | null
}

/** Returns the days of a span of UTC days, the oldest first. @param to exclusive */
export async function readPromotionDays(
  sql: Sql,
  hosterId: string,
  { from, to }: { readonly from: string | null; readonly to: string | null },
): Promise<PromotionDay[]> {
  const { rows } = await sql.query<PromotionDay>(
    `SELECT to_char(s.day, 'YYYY-MM-DD') AS day, sum(s.share_nanos)::bigint AS "shareNanos", max(d.share_nanos - d.taken_nanos) AS "paidNanos"
     FROM promotion_share s LEFT JOIN promotion_day d USING (hoster_id, day)
     WHERE s.hoster_id = $1 AND ($2::date IS NULL OR s.day >= $2) AND ($3::date IS NULL OR s.day < $3) GROUP BY s.day ORDER BY s.day`,
    [hosterId, from, to],
  )
  return rows
}

/** A row of `promotion_review`: earnings that related customers paid with promotion credit. */
export interface PromotionReview {
  readonly reviewId: string
  readonly hosterId: string
  readonly hosterName: string
  readonly shareNanos: Nanos
  readonly evidence: readonly {
    readonly customer_id: string
    /** Null: a deleted customer. */
    readonly email: string | null
    readonly evidence: string
    readonly detail: string | null
  }[]
  readonly openedAt: Date
  readonly state: 'waiting' | 'released' | 'withheld'
  readonly reason: string | null
  /** The operator's mail address. Null: the command line, or nobody yet. */
  readonly decidedBy: string | null
  readonly decidedAt: Date | null
}

/** Returns the newest 100 reviews, those that wait first. @param batchId only those that keep this batch waiting */
export async function listPromotionReviews(sql: Sql, batchId: string | null): Promise<PromotionReview[]> {
  const { rows } = await sql.query<PromotionReview>(
    `SELECT r.review_id AS "reviewId", r.hoster_id AS "hosterId", h.name AS "hosterName", r.share_nanos AS "shareNanos",
       (SELECT jsonb_agg(e.value || jsonb_build_object('email', c.email) ORDER BY e.ordinality)
        FROM jsonb_array_elements(r.evidence) WITH ORDINALITY e LEFT JOIN customer c ON c.customer_id::text = e.value->>'customer_id') AS evidence,
       r.opened_at AS "openedAt", r.state, r.reason, coalesce(p.email, r.decided_by::text) AS "decidedBy", r.decided_at AS "decidedAt"
     FROM promotion_review r JOIN hoster h USING (hoster_id) LEFT JOIN person p ON p.person_id = r.decided_by
     WHERE $1::uuid IS NULL OR (r.state = 'waiting' AND EXISTS (
       SELECT FROM payout o WHERE o.batch_id = $1 AND o.hoster_id = r.hoster_id AND o.state = 'prepared'))
     ORDER BY r.state <> 'waiting', r.opened_at DESC, r.review_id LIMIT 100`,
    [batchId],
  )
  return rows
}

/** Finds what promotion credit has paid, and closes the days past the hold. */
export async function closePromotionDays(sql: Sql, rules: PayoutRules, nowMs: number): Promise<void> {
  await sql.query('SELECT close_promotion_days($1, ROW($2, $3, $4, $5, $6)::payout_rules)', [
    new Date(nowMs),
    ...rulesRow(rules),
  ])
}

/** What the overview of operators warns about. */
export interface PromotionState {
  readonly waitingReviews: number
  /** Promotional earnings of yesterday, UTC. */
  readonly yesterdayNanos: Nanos
}

export async function readPromotionState(sql: Sql, nowMs: number): Promise<PromotionState> {
  const { waiting, yesterday } = await queryRow<{ waiting: bigint; yesterday: Nanos }>(
    sql,
    `SELECT (SELECT count(*) FROM promotion_review WHERE state = 'waiting') AS waiting,
       (SELECT coalesce(sum(share_nanos), 0)::bigint FROM promotion_share WHERE day = ($1::timestamptz AT TIME ZONE 'UTC')::date - 1) AS yesterday`,
    [new Date(nowMs)],
  )
  return { waitingReviews: Number(waiting), yesterdayNanos: yesterday }
}
