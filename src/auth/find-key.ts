import type { Sql } from '../db/pool.ts'

/** A key as the database knows it, joined with its customer. */
export interface KeyRow {
  readonly key_id: string
  readonly expires_at: Date | null
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
    SELECT key_id, expires_at, customer_id, email, account_tier,
           requests_per_minute, requests_per_day, daily_spend_cap_nanos
      FROM api_key JOIN customer USING (customer_id)
     WHERE key_hash = decode($1, 'base64') AND revoked_at IS NULL AND disabled_at IS NULL`,
}

/** The key with this SHA-256 (base64), unless it or its customer is shut off. Whoever uses it checks `expires_at`. */
export async function findKey(sql: Sql, keyHash: string): Promise<KeyRow | undefined> {
  return (await sql.query<KeyRow>(statement, [keyHash])).rows[0]
}
