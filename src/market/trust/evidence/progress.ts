import type { Sql } from '../../../base/db/pool.ts'

const NAME = 'trust_read_until'

/**
 * Returns until when usage rows were read, Unix ms, and locks it until the transaction ends: two jobs at once would count rows
 * twice. The first call starts at `startMs`, so an installation with years of rows does not read them all.
 */
export async function lockProgress(sql: Sql, startMs: number): Promise<number> {
  await sql.query('INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING', [
    NAME,
    new Date(startMs).toISOString(),
  ])
  const { rows } = await sql.query<{ value: string }>('SELECT value FROM installation WHERE name = $1 FOR UPDATE', [
    NAME,
  ])
  return Date.parse(rows[0]!.value)
}

export async function writeProgress(sql: Sql, readUntilMs: number): Promise<void> {
  await sql.query('UPDATE installation SET value = $2 WHERE name = $1', [NAME, new Date(readUntilMs).toISOString()])
}
