import { createHmac } from 'node:crypto'
import type { Sql } from '../db/pool.ts'

// By its mark a database knows the master key of its servers again. Whoever seals with another one makes what no server can open.

/** Tells nothing of the key: an HMAC-SHA-256 of a constant under its 32 random bytes. */
export function markOf(masterKey: Buffer): string {
  return createHmac('sha256', masterKey).update('switchyard master key').digest('hex')
}

/** The mark of the key that was last noted; undefined before the first. */
export async function readMark(sql: Sql): Promise<string | undefined> {
  const { rows } = await sql.query<{ value: string }>('SELECT value FROM installation WHERE name = $1', [NAME])
  return rows[0]?.value
}

/** Notes the key of a server that starts. False when the one before it had another. */
export async function noteMasterKey(sql: Sql, masterKey: Buffer): Promise<boolean> {
  const before = await readMark(sql)
  const mark = markOf(masterKey)
  if (before === mark) return true
  await sql.query(
    'INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    [NAME, mark],
  )
  return before === undefined
}

const NAME = 'master_key_mark'
