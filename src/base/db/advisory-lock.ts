import type { Pool } from './pool.ts'
import { queryRow } from './query-row.ts'

/**
 * Takes the lock with this key until it is disposed of or its session ends. Undefined: another process has it. A lock on a file
 * would not do: several machines share the database, and locks of network file systems are not reliable.
 */
export async function tryAdvisoryLock(pool: Pool, key: number): Promise<AsyncDisposable | undefined> {
  const client = await pool.pg.connect()
  const end = () => client.release(true)
  try {
    const { locked } = await queryRow<{ locked: boolean }>(client, 'SELECT pg_try_advisory_lock($1) AS locked', [key])
    if (locked)
      return { [Symbol.asyncDispose]: () => client.query('SELECT pg_advisory_unlock($1)', [key]).then(end, end) }
  } catch (error) {
    end()
    throw error
  }
  client.release()
  return undefined
}
