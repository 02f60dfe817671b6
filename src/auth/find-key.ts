import type { Sql } from '../db/pool.ts'
import type { LimitReset } from '../domain/caller.ts'

/** A key as the database knows it, joined with its customer. */
export interface KeyRow {
  readonly key_id: string
  readonly expires_at: Date | null
  readonly spend_limit_nanos: bigint | null
  readonly limit_reset: LimitReset
  readonly allowed_models: readonly string[] | null
  readonly scopes: readonly string[]
  readonly customer_id: string
  readonly email: string
  readonly account_tier: string
  /** Overrides of the account tier's limits. */
  readonly requests_per_minute: number | null
  readonly requests_per_day: number | null
  readonly daily_spend_cap_nanos: bigint | null
}

const statement = {
  name: 'auth_find_key',
  text: `
    SELECT key_id, expires_at, spend_limit_nanos, limit_reset, allowed_models, scopes, customer_id, email, account_tier,
           requests_per_minute, requests_per_day, daily_spend_cap_nanos
      FROM api_key JOIN customer USING (customer_id)
     WHERE key_hash = decode($1, 'base64') AND revoked_at IS NULL AND disabled_at IS NULL`,
}

/** The key with this SHA-256 (base64), unless it or its customer is shut off. Whoever uses it checks `expires_at`. */
export async function findKey(sql: Sql, keyHash: string): Promise<KeyRow | undefined> {
  return (await sql.query<KeyRow>(statement, [keyHash])).rows[0]
}
