import type { Sql } from '../../base/db/pool.ts'
import type { Nanos } from '../../base/domain/money.ts'
import type { PayoutDriverName } from '../../base/domain/money-drivers.ts'

export const payoutStates = ['prepared', 'approved', 'sending', 'paid', 'failed', 'returned', 'cancelled'] as const
export type PayoutState = (typeof payoutStates)[number]

/** A row of `payout`: see the migration of payouts. */
export interface Payout {
  readonly payoutId: string
  readonly batchId: string
  readonly hosterId: string
  readonly hosterName: string
  readonly driver: PayoutDriverName
  /** False: prepared in the test mode of the provider. */
  readonly isLive: boolean
  readonly state: PayoutState
  readonly destination: string
  readonly holder: string | null
  readonly amountNanos: Nanos
  readonly paidNanos: Nanos
  /** The part of the amount that promotion credit paid. */
  readonly promotionNanos: Nanos
  readonly currency: string
  readonly reference: string
  readonly providerRef: string | null
  readonly failure: string | null
  readonly mismatch: string | null
  readonly version: bigint
  readonly createdAt: Date
  readonly sentAt: Date | null
  readonly endedAt: Date | null
}

const COLUMNS = `
p.payout_id AS "payoutId", p.batch_id AS "batchId", p.hoster_id AS "hosterId", h.name AS "hosterName", p.driver, p.is_live AS "isLive", p.state, p.destination, p.holder,
p.amount_nanos AS "amountNanos", p.paid_nanos AS "paidNanos",
(SELECT coalesce(sum(d.share_nanos - d.taken_nanos), 0)::bigint FROM promotion_day d WHERE d.payout_id = p.payout_id) AS "promotionNanos", p.currency, p.reference, p.provider_ref AS "providerRef", p.failure, p.mismatch,
p.version, p.created_at AS "createdAt", p.sent_at AS "sentAt", p.ended_at AS "endedAt"
FROM payout p JOIN hoster h USING (hoster_id)`

export async function findPayout(sql: Sql, payoutId: string): Promise<Payout | undefined> {
  const { rows } = await sql.query<Payout>(`SELECT ${COLUMNS} WHERE p.payout_id::text = $1`, [payoutId])
  return rows[0]
}

export async function payoutsOfBatch(sql: Sql, batchId: string): Promise<Payout[]> {
  const { rows } = await sql.query<Payout>(`SELECT ${COLUMNS} WHERE p.batch_id = $1 ORDER BY h.name, p.payout_id`, [
    batchId,
  ])
  return rows
}

/** Lists the payouts of a hoster, the newest first. @param after the last payout of the page before */
export async function payoutsOfHoster(
  sql: Sql,
  hosterId: string,
  { limit, after }: { readonly limit: number; readonly after: string | null },
): Promise<Payout[]> {
  const { rows } = await sql.query<Payout>(
    `SELECT ${COLUMNS} WHERE p.hoster_id = $1
       AND ($2::uuid IS NULL OR (p.created_at, p.payout_id) < (SELECT a.created_at, a.payout_id FROM payout a WHERE a.payout_id = $2))
     ORDER BY p.created_at DESC, p.payout_id DESC LIMIT $3`,
    [hosterId, after, limit],
  )
  return rows
}

/** A row of `payout_batch` with its sums. */
export interface PayoutBatch {
  readonly batchId: string
  readonly driver: PayoutDriverName
  readonly isLive: boolean
  readonly state: 'prepared' | 'approved' | 'settled' | 'cancelled'
  /** The operator's mail address. Null: the command line. */
  readonly preparedBy: string | null
  readonly preparedAt: Date
  readonly approvedBy: string | null
  readonly approvedAt: Date | null
  readonly payouts: bigint
  readonly amountNanos: Nanos
  readonly paidNanos: Nanos
  /** Payouts with a report that differs. */
  readonly mismatches: bigint
}

const BATCHES = `
SELECT b.batch_id AS "batchId", b.driver, b.is_live AS "isLive", b.state, coalesce(prep.email, b.prepared_by::text) AS "preparedBy",
  b.prepared_at AS "preparedAt", coalesce(app.email, b.approved_by::text) AS "approvedBy", b.approved_at AS "approvedAt",
  s.payouts, s.amount AS "amountNanos", s.paid AS "paidNanos", s.mismatches
FROM payout_batch b LEFT JOIN person prep ON prep.person_id = b.prepared_by LEFT JOIN person app ON app.person_id = b.approved_by,
  LATERAL (
    SELECT count(*) AS payouts, coalesce(sum(amount_nanos), 0)::bigint AS amount, coalesce(sum(paid_nanos), 0)::bigint AS paid,
      count(*) FILTER (WHERE mismatch IS NOT NULL) AS mismatches
    FROM payout p WHERE p.batch_id = b.batch_id
  ) s`

export async function findBatch(sql: Sql, batchId: string): Promise<PayoutBatch | undefined> {
  const { rows } = await sql.query<PayoutBatch>(`${BATCHES} WHERE b.batch_id = $1`, [batchId])
  return rows[0]
}

/** Lists batches, the newest first. @param after the last batch of the page before */
export async function listBatches(
  sql: Sql,
  { limit, after }: { readonly limit: number; readonly after: string | null },
): Promise<PayoutBatch[]> {
  const { rows } = await sql.query<PayoutBatch>(
    `${BATCHES}
     WHERE $1::uuid IS NULL OR (b.prepared_at, b.batch_id) < (SELECT a.prepared_at, a.batch_id FROM payout_batch a WHERE a.batch_id = $1)
     ORDER BY b.prepared_at DESC, b.batch_id DESC LIMIT $2`,
    [after, limit],
  )
  return rows
}
