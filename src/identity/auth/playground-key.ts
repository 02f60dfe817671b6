import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { HOUR_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { type Nanos, usdText } from '../../base/domain/money.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { KeyRing } from './key-ring.ts'
import { type IssuedKey, type KeyListing, revokeKey } from './keys.ts'

const LIFETIME_MS = 12 * HOUR_MS

export interface PlaygroundOrder {
  readonly customerId: string
  readonly personId: string
  readonly sessionId: string
  /** What the person may spend in the playground on one UTC day. */
  readonly limitNanos: Nanos
  readonly nowMs: number
  /** The address of the client. */
  readonly address: string
}

/**
 * Makes a key for one page of the playground: it ends after 12 hours. The earlier playground keys of the person end now, and
 * what they spent and hold today counts against the limit, so opening the page again gives no new allowance. Rejects with
 * `key_spend_limit_reached` when nothing of the limit is left, and like `KeyRing.issue`.
 */
export function issuePlaygroundKey(
  keys: Pick<KeyRing, 'issueFor'>,
  { customerId, personId, sessionId, limitNanos, nowMs, address }: PlaygroundOrder,
): Promise<IssuedKey & { readonly listing: KeyListing }> {
  const by = { personId, keyId: null, address }
  return keys.issueFor(customerId, by, async sql => {
    const { rows } = await sql.query<{ keyId: string }>(
      `SELECT key_id AS "keyId" FROM api_key
        WHERE customer_id = $1 AND person_id = $2 AND is_playground AND revoked_at IS NULL ORDER BY key_id FOR UPDATE`,
      [customerId, personId],
    )
    for (const { keyId } of rows) await revokeKey(sql, keyId)
    const usedNanos = await usedToday(sql, customerId, personId, nowMs)
    if (usedNanos >= limitNanos) {
      throw new ApiError('key_spend_limit_reached', {
        message: sayRefusal('refusal.playground_spent', { limit: usdText(limitNanos) }),
      })
    }
    return {
      customerId,
      personId,
      makerId: sessionId,
      name: 'Playground',
      isPlayground: true,
      limit: { limitNanos: limitNanos - usedNanos, reset: 'daily' },
      expiresAt: new Date(nowMs + LIFETIME_MS),
    }
  })
}

/** Returns what the playground keys of a person have spent and hold on the current UTC day. */
async function usedToday(sql: Sql, customerId: string, personId: string, nowMs: number): Promise<Nanos> {
  const { used } = await queryRow<{ used: Nanos }>(
    sql,
    `SELECT coalesce(sum(s.spent_nanos + s.leased_nanos), 0)::bigint AS used
       FROM api_key k JOIN key_spend s ON s.customer_id = k.customer_id AND s.key_id = k.key_id
      WHERE k.customer_id = $1 AND k.person_id = $2 AND k.is_playground AND s.window_start >= $3`,
    [customerId, personId, new Date(nowMs).toISOString().slice(0, 10)],
  )
  return used
}
