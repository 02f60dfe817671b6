import { createHmac } from 'node:crypto'
import type { Sql } from '../db/pool.ts'

// The database stores a mark of the master key, to detect a process that runs with another key: no server could
// open the secrets that this process seals.

/**
 * Returns the mark of a key: an HMAC-SHA-256 of a constant under its 32 random bytes, which reveals nothing
 * about the key.
 */
export function markOf(masterKey: Buffer): string {
  return createHmac('sha256', masterKey).update('switchyard master key').digest('hex')
}

/** Returns the mark of the last key that `noteMasterKey` stored; undefined when there is none. */
export async function readMark(sql: Sql): Promise<string | undefined> {
  const { rows } = await sql.query<{ value: string }>('SELECT value FROM installation WHERE name = $1', [NAME])
  return rows[0]?.value
}

/** Stores the mark of a starting server's key. Returns false when the previous server had another key. */
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
