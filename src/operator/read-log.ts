import type { Sql } from '../base/db/pool.ts'
import { emailOrNull } from '../money/accounts/customers.ts'
import { pageOf } from '../wire/api/cursor.ts'
import type { AuditLogPage, AuditLogState, LogQuery } from '../wire/api/operator/log.ts'

/**
 * Returns a page of the audit log, the newest entry first.
 *
 * @param before the number of the last entry of the page before; null for the first page
 */
export async function readLog(
  sql: Sql,
  { action, person, customer, limit }: LogQuery,
  before: string | null,
): Promise<AuditLogPage> {
  const { rows } = await sql.query<EntryRow>(PAGE, [
    before,
    action ?? null,
    person ?? null,
    customer ?? null,
    // One more shows whether there is a next page.
    limit + 1,
  ])
  const { page, next_cursor } = pageOf(rows, limit, row => String(row.id))
  return {
    data: page.map(row => ({
      id: Number(row.id),
      at: row.at.toISOString(),
      person: row.personId === null ? null : { id: row.personId, email: row.personEmail },
      action: row.action,
      subject: row.subject,
      customer:
        row.customerId === null
          ? null
          : { id: row.customerId, email: row.customerEmail === null ? null : emailOrNull(row.customerEmail) },
      detail: row.detail,
      address: row.address,
    })),
    next_cursor,
  }
}

/** What a look at the log checks: 10,000 entries take 50 ms. */
const CHECKED_ENTRIES = 10_000

/** Computes the hashes of the newest 10,000 entries again, or of all of them: a second for 200,000. */
export async function checkLog(sql: Sql, isWhole: boolean): Promise<AuditLogState> {
  const newest = await sql.query<{ id: bigint; hash: string }>(NEWEST)
  const { id: lastId = 0n, hash: lastHash = null } = newest.rows[0] ?? {}
  const firstId = isWhole ? 1n : lastId - BigInt(CHECKED_ENTRIES) + 1n
  const breaks = await sql.query<{ id: bigint }>(BREAKS, [firstId < 1n ? 1n : firstId])
  return {
    // Entries are numbered without gaps. A gap is a break.
    entries: Number(lastId),
    checked: Number(firstId < 1n ? lastId : lastId - firstId + 1n),
    is_intact: breaks.rows.length === 0,
    breaks: breaks.rows.map(row => Number(row.id)),
    last_hash: lastHash,
  }
}

interface EntryRow {
  readonly id: bigint
  readonly at: Date
  readonly personId: string | null
  readonly personEmail: string | null
  readonly action: string
  readonly subject: string
  readonly customerId: string | null
  readonly customerEmail: string | null
  readonly detail: Record<string, unknown>
  readonly address: string | null
}

// '/' is the character after '.', so the range has the actions that begin with $2 and a dot.
const PAGE = `
SELECT entry_id AS id, e.at, e.person_id AS "personId", p.email AS "personEmail", e.action, e.subject,
  e.customer_id AS "customerId", c.email AS "customerEmail", e.detail, e.address
FROM audit_entry e LEFT JOIN person p USING (person_id) LEFT JOIN customer c ON c.customer_id = e.customer_id
WHERE ($1::bigint IS NULL OR entry_id < $1)
  AND ($2::text IS NULL OR action COLLATE "C" = $2 OR (action COLLATE "C" >= $2 || '.' AND action COLLATE "C" < $2 || '/'))
  AND ($3::uuid IS NULL OR e.person_id = $3)
  AND ($4::uuid IS NULL OR e.customer_id = $4)
ORDER BY entry_id DESC
LIMIT $5`

const NEWEST = `SELECT entry_id AS id, encode(hash, 'hex') AS hash FROM audit_entry ORDER BY entry_id DESC LIMIT 1`

// As the view audit_log_break, from an entry on. The entry before it gives its hash.
const BREAKS = `
SELECT entry_id AS id
FROM (
  SELECT e, e.entry_id, e.hash, lag(e.hash, 1, ''::bytea) OVER in_order AS previous_hash,
    lag(e.entry_id, 1, 0::bigint) OVER in_order AS previous_id
  FROM audit_entry e WHERE e.entry_id >= $1::bigint - 1 WINDOW in_order AS (ORDER BY e.entry_id)
) AS entries
WHERE entry_id >= $1::bigint AND (entry_id <> previous_id + 1 OR hash <> audit_entry_hash(previous_hash, e))
ORDER BY entry_id LIMIT 20`
