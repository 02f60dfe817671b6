import type { Sql } from '../../db/pool.ts'
import type { Nanos } from '../../domain/money.ts'

export interface HosterEarnings {
  readonly hosterId: string
  readonly name: string
  /** Its shares of what was charged in the period. */
  readonly earnedNanos: Nanos
  /** Its parts of the refunds made in the period, whenever their requests ran. */
  readonly takenBackNanos: Nanos
  /** Everything it earned up to now less everything taken back, and below zero if that was more: payouts are not in the ledger. */
  readonly allTimeNanos: Nanos
}

/**
 * What every hoster earned, by name, also those without a request. A charge is of the period in which it was committed: periods that meet
 * count each once, and what a finished period came to stays as it was.
 *
 * @param from the beginning of the period; null is that of everything
 * @param to its end, which is not of it; null is none
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
