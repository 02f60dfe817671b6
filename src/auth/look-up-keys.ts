import type { Sql } from '../db/pool.ts'
import type { LimitReset } from '../domain/caller.ts'

/** A key as the database knows it, joined with its customer. */
export interface KeyRow {
  /** SHA-256, base64. */
  readonly key_hash: string
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

/** The key with this SHA-256 (base64), unless it or its customer is shut off. Whoever uses it checks `expires_at`. */
export type LookUpKey = (keyHash: string) => Promise<KeyRow | undefined>

const statement = {
  name: 'auth_look_up_keys',
  text: `
    SELECT encode(key_hash, 'base64') AS key_hash, key_id, expires_at, spend_limit_nanos, limit_reset, allowed_models, scopes,
           customer_id, email, account_tier, requests_per_minute, requests_per_day, daily_spend_cap_nanos
      FROM api_key JOIN customer USING (customer_id)
     WHERE key_hash = ANY ($1) AND revoked_at IS NULL AND disabled_at IS NULL`,
}

const KEYS_MAX = 1_000
/** One is on its way while the next one gathers, and one that is stuck does not stop the others. */
const STATEMENTS_MAX = 2

/**
 * Looks keys up many at a time: what is asked while statements are under way is the next statement. When keys change, all that are in use are asked for
 * again at once; and who guesses keys that pass the checksum takes a fraction of a statement each.
 */
export function createKeyLookUp(sql: Sql): LookUpKey {
  let waiting: Waiting[] = []
  let underWay = 0

  return keyHash =>
    new Promise((resolve, reject) => {
      waiting.push({ keyHash, resolve, reject })
      // After what else has come in this turn: it belongs into the same statement.
      if (waiting.length === 1) setImmediate(send)
    })

  async function send(): Promise<void> {
    if (waiting.length === 0 || underWay === STATEMENTS_MAX) return
    const batch = waiting.slice(0, KEYS_MAX)
    waiting = waiting.slice(KEYS_MAX)
    underWay++
    try {
      const hashes = batch.map(({ keyHash }) => Buffer.from(keyHash, 'base64'))
      const { rows } = await sql.query<KeyRow>(statement, [hashes])
      const found = new Map(rows.map(row => [row.key_hash, row]))
      for (const { keyHash, resolve } of batch) resolve(found.get(keyHash))
    } catch (error) {
      // Those that wait have waited for as long, for the same database.
      for (const { reject } of [...batch, ...waiting]) reject(error)
      waiting = []
    }
    underWay--
    void send()
  }
}

interface Waiting {
  readonly keyHash: string
  resolve(row: KeyRow | undefined): void
  reject(error: unknown): void
}
