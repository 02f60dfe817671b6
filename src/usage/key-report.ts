import { type KeyReport, type ListedKey, showKey } from '../api/keys.ts'
import type { Sql } from '../db/pool.ts'
import type { Caller } from '../domain/caller.ts'
import { type Nanos, usd } from '../domain/money.ts'
import type { KeyUse } from '../domain/spend.ts'
import type { WindowCounts } from '../domain/windows.ts'
import { FROM_KEY, KEY_USE_COLUMNS } from './key-use.ts'
import { rateLimits } from './report-figures.ts'

/** Returns the limits and the usage of the caller's key, up to the last settled request. */
export async function keyReport(sql: Sql, caller: Caller, windows: WindowCounts, nowMs: number): Promise<KeyReport> {
  const { rows } = await sql.query<KeyRow>(READ_KEY, [new Date(nowMs).toISOString(), caller.customerId, caller.keyId])
  const row = rows[0]!
  return {
    ...showKey(row, row),
    customer: caller.email,
    tier: caller.accountTier,
    limit_remaining_usd: row.limitNanos === null ? null : usd(max(row.limitNanos - row.windowNanos, 0n)),
    rate_limits: rateLimits(caller.limits, windows),
  }
}

interface KeyRow extends ListedKey, KeyUse {}

const READ_KEY = `
SELECT k.key_id AS "keyId", k.name, k.hint, k.spend_limit_nanos AS "limitNanos", k.limit_reset AS "limitReset",
  k.allowed_models AS "allowedModels", k.scopes, k.routing_defaults AS defaults, k.created_at AS "createdAt", k.expires_at AS "expiresAt",
  k.is_playground AS "isPlayground", (SELECT email FROM person p WHERE p.person_id = k.person_id) AS "madeBy",
  ${KEY_USE_COLUMNS} ${FROM_KEY}
WHERE k.customer_id = $2 AND k.key_id = $3`

function max(a: Nanos, b: Nanos): Nanos {
  return a > b ? a : b
}
