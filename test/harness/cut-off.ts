import { inject } from 'vitest'
import { createPool } from '../../src/db/pool.ts'
import type { TestDatabase } from './database.ts'

/** Takes a database away, from under open connections too; the returned function gives it back. */
export async function cutOff({ connection }: TestDatabase): Promise<() => Promise<void>> {
  const name = connection.database
  const onServer = async (sql: string) => {
    const pool = createPool(
      { ...inject('templateConnection'), database: 'switchyard' },
      { max: 1, applicationName: 'outage' },
    )
    await pool.query(sql)
    await pool.end()
  }
  await onServer(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`)
  await onServer(`SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '${name}'`)
  return () => onServer(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`)
}
