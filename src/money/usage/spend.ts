import type { Sql } from '../../base/db/pool.ts'
import type { Spend } from '../../base/domain/spend.ts'

/** The sums of `Spend` over rows `d` of usage_key_day, on the day `t.today`. */
export const SPEND_COLUMNS = `
  coalesce(sum(d.cost_nanos) FILTER (WHERE d.day >= t.today), 0)::bigint AS "todayNanos",
  coalesce(sum(d.cost_nanos) FILTER (WHERE d.day >= key_window_start('weekly', t.today)), 0)::bigint AS "weekNanos",
  coalesce(sum(d.cost_nanos) FILTER (WHERE d.day >= key_window_start('monthly', t.today)), 0)::bigint AS "monthNanos",
  coalesce(sum(d.cost_nanos), 0)::bigint AS "totalNanos"`

/** Returns the spend of every customer that has one, by customer id: of one, or of all (`customerId` null). */
export function spendByCustomer(
  sql: Sql,
  customerId: string | null,
  nowMs: number,
): Promise<ReadonlyMap<string, Spend>> {
  return spendBy(sql, 'customer_id', customerId, nowMs)
}

/** Returns the spend of every key that has one, by key id: of one customer, or of all (`customerId` null). */
export function spendByKey(sql: Sql, customerId: string | null, nowMs: number): Promise<ReadonlyMap<string, Spend>> {
  return spendBy(sql, 'key_id', customerId, nowMs)
}

async function spendBy(
  sql: Sql,
  column: 'customer_id' | 'key_id',
  customerId: string | null,
  nowMs: number,
): Promise<ReadonlyMap<string, Spend>> {
  const { rows } = await sql.query<Spend & { readonly id: string }>(
    `SELECT d.${column} AS id, ${SPEND_COLUMNS}
     FROM usage_key_day d CROSS JOIN (SELECT ($1::timestamptz AT TIME ZONE 'UTC')::date AS today) t
     ${customerId === null ? '' : 'WHERE d.customer_id = $2'}
     GROUP BY d.${column}`,
    [new Date(nowMs).toISOString(), ...(customerId === null ? [] : [customerId])],
  )
  return new Map(rows.map(({ id, ...spend }) => [id, spend]))
}
