import type { Sql } from '../../../base/db/pool.ts'

/** The result of the last completed audit on any node. */
export interface LastAudit {
  readonly atEpochMs: number
  readonly elapsedMs: number
  /** The sum over all checks. 0 means that the ledger is correct. */
  readonly violations: number
}

/** Stores the result in the database, where every node can read it. */
export async function recordAudit(sql: Sql, audit: LastAudit): Promise<void> {
  await sql.query(
    `INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
    [NAME, JSON.stringify(audit)],
  )
}

/** Undefined when no audit has completed yet. */
export async function readLastAudit(sql: Sql): Promise<LastAudit | undefined> {
  const { rows } = await sql.query<{ value: string }>('SELECT value FROM installation WHERE name = $1', [NAME])
  return rows[0] && (JSON.parse(rows[0].value) as LastAudit)
}

const NAME = 'last_ledger_audit'
