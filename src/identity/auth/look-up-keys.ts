import type { NamedStatement, Sql } from '../../base/db/pool.ts'
import type { LimitReset } from '../../base/domain/caller.ts'
import type { KeyDefaults } from '../../base/domain/chat-job.ts'

/** A row of a key joined with its customer. */
interface KeyColumns {
  /** SHA-256, base64. */
  readonly key_hash: string
  readonly key_id: string
  readonly expires_at: Date | null
  readonly is_paused: boolean
  readonly spend_limit_nanos: bigint | null
  readonly limit_reset: LimitReset
  readonly allowed_models: readonly string[] | null
  readonly scopes: readonly string[]
  readonly routing_defaults: KeyDefaults | null
  readonly label: string | null
  readonly records_content: boolean
  readonly customer_id: string
  readonly email: string
  readonly account_tier: string
  readonly shares_requests: boolean
  /** Overrides of the account tier's limits. */
  readonly requests_per_minute: number | null
  readonly requests_per_day: number | null
  readonly daily_spend_cap_nanos: bigint | null
  /** The prices of the customer, or of its tier; null: those of the offers. */
  readonly price_group: string | null
  readonly price_group_version: number | null
}

/** The limit of the member that made the key; null without a limit. */
type MemberColumns =
  | {
      readonly member_limit_nanos: bigint
      readonly member_limit_reset: LimitReset
      readonly member_id: string
      readonly member_email: string
    }
  | {
      readonly member_limit_nanos: null
      readonly member_limit_reset: null
      readonly member_id: null
      readonly member_email: null
    }

export type KeyRow = KeyColumns & MemberColumns

/**
 * A statement that reads the rows of the keys with the hashes in its first parameter. Each row has its `key_hash`, as
 * base64.
 */
export interface KeyStatement<Row extends { readonly key_hash: string }> extends NamedStatement {
  /** Never set: ties the statement to its rows. */
  readonly row?: Row
}

/**
 * Keys that are not revoked, also former ones, of customers that are not disabled and people who are not blocked. The caller must check
 * `expires_at`. A former key belongs to the person that knows it, who may not be the one that replaced it. It has no scopes: the
 * key may have been replaced because it leaked.
 */
export const keysOfCustomers: KeyStatement<KeyRow> = {
  name: 'auth_look_up_keys',
  text: `
    SELECT encode(found.hash, 'base64') AS key_hash, key_id, least(k.expires_at, found.expires_at) AS expires_at,
           k.paused_at IS NOT NULL AS is_paused, k.spend_limit_nanos, k.limit_reset, allowed_models,
           CASE WHEN found.is_former THEN '{}' ELSE scopes END AS scopes,
           routing_defaults, label, records_content, k.customer_id, c.email, account_tier, shares_requests, requests_per_minute, requests_per_day,
           daily_spend_cap_nanos, g.name AS price_group, g.version AS price_group_version,
           m.spend_limit_nanos AS member_limit_nanos, m.limit_reset AS member_limit_reset, m.person_id AS member_id, p.email AS member_email
      FROM (SELECT key_id, key_hash AS hash, NULL::timestamptz AS expires_at, person_id, false AS is_former FROM api_key WHERE key_hash = ANY ($1)
            UNION ALL
            SELECT key_id, former_key_hash, former_expires_at, former_person_id, true FROM api_key WHERE former_key_hash = ANY ($1)) found
      JOIN api_key k USING (key_id) JOIN customer c USING (customer_id)
      LEFT JOIN tier_price_group t USING (account_tier)
      LEFT JOIN price_group g ON g.name = coalesce(c.price_group, t.price_group)
      LEFT JOIN member_limit m ON m.customer_id = k.customer_id AND m.person_id = found.person_id
      LEFT JOIN person p ON p.person_id = found.person_id
     WHERE revoked_at IS NULL AND c.disabled_at IS NULL AND p.disabled_at IS NULL`,
}

const KEYS_MAX = 1_000
/** Few, so that look-ups gather into batches; more than one, so that a stuck statement does not block the others. */
const STATEMENTS_MAX = 2

/**
 * Looks keys up in batches: look-ups that arrive while statements run form the next statement. This matters after a
 * change of keys, when all keys in use are looked up again at once. It also means that a guessed key with a valid
 * checksum costs only a fraction of a statement.
 */
export function createKeyLookUp<Row extends { readonly key_hash: string }>(
  sql: Sql,
  statement: KeyStatement<Row>,
): (keyHash: string) => Promise<Row | undefined> {
  let waiting: Waiting<Row>[] = []
  let runningStatements = 0

  return keyHash =>
    new Promise((resolve, reject) => {
      waiting.push({ keyHash, resolve, reject })
      // Wait for the other look-ups of this turn, so that they share the statement.
      if (waiting.length === 1) setImmediate(send)
    })

  async function send(): Promise<void> {
    if (waiting.length === 0 || runningStatements === STATEMENTS_MAX) return
    const batch = waiting.slice(0, KEYS_MAX)
    waiting = waiting.slice(KEYS_MAX)
    runningStatements++
    try {
      const hashes = batch.map(({ keyHash }) => Buffer.from(keyHash, 'base64'))
      const { name, text } = statement
      const { rows } = await sql.query<Row>({ name, text }, [hashes])
      const found = new Map(rows.map(row => [row.key_hash, row]))
      for (const { keyHash, resolve } of batch) resolve(found.get(keyHash))
    } catch (error) {
      // Reject the waiting look-ups too: they have waited for the same database just as long.
      for (const { reject } of [...batch, ...waiting]) reject(error)
      waiting = []
    }
    runningStatements--
    void send()
  }
}

interface Waiting<Row> {
  readonly keyHash: string
  resolve(row: Row | undefined): void
  reject(error: unknown): void
}
