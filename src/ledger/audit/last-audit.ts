import type { Sql } from '../../db/pool.ts'

/** What came of the last audit that ran to its end, on whatever node. */
export interface LastAudit {
  readonly atEpochMs: number
  readonly elapsedMs: number
  /** Of all checks together; 0 is a clean ledger. */
  readonly violations: number
}

/** Kept where every node can read it, also after a restart. */
export async function recordAudit(sql: Sql, audit: LastAudit): Promise<void> {
  await sql.query(
    `INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value`,
    [NAME, JSON.stringify(audit)],
  )
}

/** Undefined when there was none yet. */
export async function readLastAudit(sql: Sql): Promise<LastAudit | undefined> {
  const { rows } = await sql.query<{ value: string }>('SELECT value FROM installation WHERE name = $1', [NAME])
  return rows[0] && (JSON.parse(rows[0].value) as LastAudit)
}

const NAME = 'last_ledger_audit'
