import type { Sql } from '../../../base/db/pool.ts'
import type { Nanos } from '../../../base/domain/money.ts'

export interface HosterEarnings {
  readonly hosterId: string
  readonly name: string
  /** The hoster's shares of the charges of the period. */
  readonly earnedNanos: Nanos
  /** The hoster's parts of the refunds made in the period, whenever their requests ran. */
  readonly takenBackNanos: Nanos
  /** Everything earned up to now less what was taken back, paid out or moved. May be negative. */
  readonly allTimeNanos: Nanos
}

/**
 * Returns what every hoster earned, sorted by name, including hosters without a request. A charge belongs to
 * the period in which it was committed, so adjacent periods count each charge once and the sums of a past period do
 * not change.
 *
 * @param from the beginning of the period; null for all time
 * @param to the end of the period, exclusive; null for no end
 */
export async function hosterEarnings(
  sql: Sql,
  { from, to }: { readonly from: Date | null; readonly to: Date | null },
): Promise<HosterEarnings[]> {
  const { rows } = await sql.query<HosterEarnings>(
    `WITH period AS (SELECT to_timestamp($1::float8 / 1000) AS begins_at, to_timestamp($2::float8 / 1000) AS ends_at)
     SELECT h.hoster_id AS "hosterId", h.name,
       coalesce(sum(e.amount_nanos) FILTER (WHERE t.kind = 'settle' AND t.at >= begins_at AND t.at < ends_at), 0)::bigint AS "earnedNanos",
       -coalesce(sum(e.amount_nanos) FILTER (WHERE t.kind = 'refund' AND t.at >= begins_at AND t.at < ends_at), 0)::bigint AS "takenBackNanos",
       coalesce(sum(e.amount_nanos), 0)::bigint AS "allTimeNanos"
     FROM period CROSS JOIN hoster h
     LEFT JOIN ledger_entry e ON e.account_kind = 'hoster_payable' AND e.account_id = h.hoster_id
     LEFT JOIN ledger_tx t ON t.tx_id = e.tx_id
     GROUP BY h.hoster_id ORDER BY h.name`,
    [from?.getTime() ?? -Infinity, to?.getTime() ?? Infinity],
  )
  return rows
}
