import type { Sql } from '../../base/db/pool.ts'
import type { KeyUse } from '../../base/domain/spend.ts'
import { SPEND_COLUMNS } from './spend.ts'

/** Returns the use of every key of a customer that is not revoked, by key id. */
export async function readKeyUses(sql: Sql, customerId: string, nowMs: number): Promise<ReadonlyMap<string, KeyUse>> {
  const { rows } = await sql.query<KeyUse & { readonly keyId: string }>(
    `SELECT k.key_id AS "keyId", ${KEY_USE_COLUMNS} ${FROM_KEY} WHERE k.customer_id = $2 AND k.revoked_at IS NULL`,
    [new Date(nowMs).toISOString(), customerId],
  )
  return new Map(rows.map(({ keyId, ...use }) => [keyId, use]))
}

/** The columns of `KeyUse`, of `FROM_KEY`. */
export const KEY_USE_COLUMNS = `
  CASE WHEN k.spend_limit_nanos IS NULL THEN 0 ELSE coalesce(s.spent_nanos, 0) END AS "windowNanos",
  CASE WHEN k.spend_limit_nanos IS NOT NULL THEN key_window_end(k.limit_reset, w.began) END AS "windowEndsAt", u.*`

/** Keys `k` with their use, at the time $1. */
export const FROM_KEY = `
FROM api_key k
CROSS JOIN (SELECT ($1::timestamptz AT TIME ZONE 'UTC')::date AS today) t
LEFT JOIN balance b ON b.customer_id = k.customer_id
CROSS JOIN LATERAL (
  SELECT next_window_start(k.limit_reset, b.day, t.today) AS began
) w
LEFT JOIN key_spend s ON s.customer_id = k.customer_id AND s.key_id = k.key_id AND s.window_start = w.began
CROSS JOIN LATERAL (
  SELECT ${SPEND_COLUMNS}, max(d.day) FILTER (WHERE d.requests > 0) AS "lastUsedOn"
    FROM usage_key_day d WHERE d.customer_id = k.customer_id AND d.key_id = k.key_id
) u`
