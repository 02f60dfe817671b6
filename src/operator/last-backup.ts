import type { Sql } from '../base/db/pool.ts'

const NAME = 'last_backup'

/** Notes that a backup that began at this time is complete. */
export async function noteBackup(sql: Sql, startedAt: Date): Promise<void> {
  await sql.query(
    'INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    [NAME, startedAt.toISOString()],
  )
}

/** Returns when the last backup began, Unix ms; null if none is known. A restored database knows of earlier ones only. */
export async function readLastBackup(sql: Sql): Promise<number | null> {
  const { rows } = await sql.query<{ value: string }>('SELECT value FROM installation WHERE name = $1', [NAME])
  return rows[0] === undefined ? null : Date.parse(rows[0].value)
}
