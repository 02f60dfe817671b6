import { emailOrNull } from '../accounts/email-or-null.ts'
import { writeCursor } from '../api/cursor.ts'
import type { AuditLogPage, AuditLogState, LogQuery } from '../api/operator/log.ts'
import type { Sql } from '../db/pool.ts'

/**
 * Returns a page of the audit log, the newest entry first.
 *
 * @param before the number of the last entry of the page before; null for the first page
 */
export async function readLog(
  sql: Sql,
  { action, person, customer, limit }: LogQuery,
  before: bigint | null,
): Promise<AuditLogPage> {
  const { rows } = await sql.query<EntryRow>(PAGE, [
    before,
    action ?? null,
    person ?? null,
    customer ?? null,
    // One more shows whether there is a next page.
    limit + 1,
  ])
  const page = rows.slice(0, limit)
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
    next_cursor: rows.length > limit ? writeCursor(String(page.at(-1)!.id)) : null,
  }
}

/** Computes the hash of every entry again. Takes a second for 200,000 entries. */
export async function checkLog(sql: Sql): Promise<AuditLogState> {
  const [breaks, state] = await Promise.all([
    sql.query<{ id: bigint }>('SELECT entry_id AS id FROM audit_log_break ORDER BY entry_id LIMIT 20'),
    sql.query<{ entries: bigint; lastHash: string | null }>(
      `SELECT count(*) AS entries, (SELECT encode(hash, 'hex') FROM audit_entry ORDER BY entry_id DESC LIMIT 1) AS "lastHash"
         FROM audit_entry`,
    ),
  ])
  const { entries, lastHash } = state.rows[0]!
  return {
    entries: Number(entries),
    is_intact: breaks.rows.length === 0,
    breaks: breaks.rows.map(({ id }) => Number(id)),
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

const PAGE = `
SELECT entry_id AS id, e.at, e.person_id AS "personId", p.email AS "personEmail", e.action, e.subject,
  e.customer_id AS "customerId", c.email AS "customerEmail", e.detail, e.address
FROM audit_entry e LEFT JOIN person p USING (person_id) LEFT JOIN customer c ON c.customer_id = e.customer_id
WHERE ($1::bigint IS NULL OR entry_id < $1)
  AND ($2::text IS NULL OR action = $2 OR starts_with(action, $2 || '.'))
  AND ($3::uuid IS NULL OR e.person_id = $3)
  AND ($4::uuid IS NULL OR e.customer_id = $4)
ORDER BY entry_id DESC
LIMIT $5`
