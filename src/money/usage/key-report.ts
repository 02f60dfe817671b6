import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { Caller, LimitReset } from '../../base/domain/caller.ts'
import { type Nanos, usd } from '../../base/domain/money.ts'
import type { KeyUse } from '../../base/domain/spend.ts'
import type { WindowCounts } from '../../base/domain/windows.ts'
import { type KeyReport, type ListedKey, showKey } from '../../wire/api/keys.ts'
import { FROM_KEY, KEY_USE_COLUMNS } from './key-use.ts'
import { rateLimits } from './report-figures.ts'

/** Returns the limits and the usage of the caller's key, up to the last settled request. */
export async function keyReport(sql: Sql, caller: Caller, windows: WindowCounts, nowMs: number): Promise<KeyReport> {
  const row = await queryRow<KeyRow>(sql, READ_KEY, [new Date(nowMs).toISOString(), caller.customerId, caller.keyId])
  return {
    ...showKey(row, row),
    customer: caller.email,
    tier: caller.accountTier,
    limit_remaining_usd: row.limitNanos === null ? null : usd(max(row.limitNanos - row.windowNanos, 0n)),
    member_limit: memberLimitOf(row),
    rate_limits: rateLimits(caller.limits, windows),
  }
}

type KeyRow = ListedKey &
  KeyUse &
  MemberLimit & { readonly memberSpentNanos: Nanos | null; readonly memberEndsAt: Date | null }

/** Nulls: the member who made the key has no limit, or no person made it. */
type MemberLimit =
  | { readonly memberEmail: string; readonly memberLimitNanos: Nanos; readonly memberReset: LimitReset }
  | { readonly memberEmail: null; readonly memberLimitNanos: null; readonly memberReset: null }

function memberLimitOf(row: KeyRow): KeyReport['member_limit'] {
  const { memberEmail, memberLimitNanos, memberReset, memberSpentNanos, memberEndsAt } = row
  if (memberLimitNanos === null) return null
  const spentNanos = memberSpentNanos ?? 0n
  return {
    email: memberEmail,
    limit_usd: usd(memberLimitNanos),
    limit_reset: memberReset,
    spent_usd: usd(spentNanos),
    remaining_usd: usd(max(memberLimitNanos - spentNanos, 0n)),
    resets_at: memberEndsAt?.toISOString() ?? null,
  }
}

const READ_KEY = `
SELECT k.key_id AS "keyId", k.name, k.hint, k.spend_limit_nanos AS "limitNanos", k.limit_reset AS "limitReset",
  k.allowed_models AS "allowedModels", k.scopes, k.label, k.routing_defaults AS defaults, k.records_content AS "recordsContent", k.created_at AS "createdAt", k.expires_at AS "expiresAt",
  k.is_playground AS "isPlayground", k.paused_at AS "pausedAt",
  CASE WHEN k.former_expires_at > $1 THEN k.former_hint END AS "formerHint",
  CASE WHEN k.former_expires_at > $1 THEN k.former_expires_at END AS "formerExpiresAt",
  (SELECT email FROM person p WHERE p.person_id = k.person_id) AS "madeBy",
  ${KEY_USE_COLUMNS}, l."memberEmail", l."memberLimitNanos", l."memberReset", l."memberSpentNanos", l."memberEndsAt" ${FROM_KEY}
LEFT JOIN LATERAL (
  SELECT p.email AS "memberEmail", m.spend_limit_nanos AS "memberLimitNanos", m.limit_reset AS "memberReset", x.spent_nanos AS "memberSpentNanos",
    key_window_end(m.limit_reset, w.began) AS "memberEndsAt"
  FROM member_limit m JOIN person p USING (person_id)
  CROSS JOIN LATERAL (SELECT next_window_start(m.limit_reset, b.day, t.today) AS began) w
  LEFT JOIN member_spend x ON x.customer_id = m.customer_id AND x.person_id = m.person_id AND x.window_start = w.began
  WHERE m.customer_id = k.customer_id AND m.person_id = k.person_id
) l ON true
WHERE k.customer_id = $2 AND k.key_id = $3`

function max(a: Nanos, b: Nanos): Nanos {
  return a > b ? a : b
}
