import { type KeyReport, type ListedKey, showKey } from '../api/keys.ts'
import type { Sql } from '../db/pool.ts'
import type { Caller } from '../domain/caller.ts'
import { type Nanos, usd } from '../domain/money.ts'
import type { Spend } from '../domain/spend.ts'
import type { WindowCounts } from '../domain/windows.ts'
import { rateLimits } from './report-figures.ts'
import { SPEND_COLUMNS } from './spend.ts'

/** Returns the limits and the usage of the caller's key, up to the last settled request. */
export async function keyReport(sql: Sql, caller: Caller, windows: WindowCounts, nowMs: number): Promise<KeyReport> {
  const { rows } = await sql.query<KeyRow>(READ_KEY, [caller.customerId, caller.keyId, new Date(nowMs).toISOString()])
  const row = rows[0]!
  return {
    ...showKey(row, row),
    customer: caller.email,
    tier: caller.accountTier,
    limit_remaining_usd: row.limitNanos === null ? null : usd(max(row.limitNanos - row.windowNanos, 0n)),
    limit_resets_at: row.limitNanos === null ? null : (row.resetsAt?.toISOString() ?? null),
    rate_limits: rateLimits(caller.limits, windows),
  }
}

interface KeyRow extends ListedKey, Spend {
  readonly windowNanos: Nanos
  readonly resetsAt: Date | null
}

// Reads the window that the next admission would use. Like `open_windows` in migrations/0002_money.sql, it keeps a
// day that is at most one day ahead of the clock.
const READ_KEY = `
SELECT k.key_id AS "keyId", k.name, k.hint, k.spend_limit_nanos AS "limitNanos", k.limit_reset AS "limitReset",
  k.allowed_models AS "allowedModels", k.scopes, k.routing_defaults AS defaults, k.created_at AS "createdAt", k.expires_at AS "expiresAt",
  coalesce(s.spent_nanos, 0) AS "windowNanos", key_window_end(k.limit_reset, w.began) AS "resetsAt", u.*
FROM api_key k
CROSS JOIN (SELECT ($3::timestamptz AT TIME ZONE 'UTC')::date AS today) t
LEFT JOIN balance b ON b.customer_id = k.customer_id
CROSS JOIN LATERAL (
  SELECT key_window_start(k.limit_reset, CASE WHEN b.day > t.today AND b.day <= t.today + 1 THEN b.day ELSE t.today END) AS began
) w
LEFT JOIN key_spend s ON s.customer_id = k.customer_id AND s.key_id = k.key_id AND s.window_start = w.began
CROSS JOIN LATERAL (
  SELECT ${SPEND_COLUMNS} FROM usage_key_day d WHERE d.customer_id = k.customer_id AND d.key_id = k.key_id
) u
WHERE k.customer_id = $1 AND k.key_id = $2`

function max(a: Nanos, b: Nanos): Nanos {
  return a > b ? a : b
}
