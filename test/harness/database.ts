import { inject } from 'vitest'
import type { Connection } from '../../src/db/embedded.ts'
import { createPool, type Pool } from '../../src/db/pool.ts'

export interface TestDatabase {
  /** For whatever opens its own connections: the composed app, graphile-worker, `migrate`. */
  readonly connection: Connection
  /** At most 10 connections with the timeouts of production. */
  readonly pool: Pool
  /** Closes the pool and removes the database, also from under connections that are still open. */
  drop(): Promise<void>
}

/** A database of its own for one test or one file, with all migrations applied and no rows besides theirs. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const template = inject('templateConnection')
  const database = `test_${process.pid}_${++created}`
  // Copying files takes three quarters of the time of the default, which writes each page to the log.
  await runOnServer(`CREATE DATABASE ${database} TEMPLATE ${template.database} STRATEGY FILE_COPY`)
  const connection: Connection = { ...template, database }
  const pool = createPool(connection, { max: 10, applicationName: database })
  return {
    connection,
    pool,
    async drop() {
      await pool.end()
      await runOnServer(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
    },
  }
}

let created = 0

async function runOnServer(sql: string): Promise<void> {
  // Not the template: PostgreSQL does not clone a database that somebody is connected to.
  const pool = createPool(
    { ...inject('templateConnection'), database: 'switchyard' },
    { max: 1, applicationName: 'test databases', statementTimeoutMs: 0, connectTimeoutMs: 0 },
  )
  try {
    await pool.query(sql)
  } finally {
    await pool.end()
  }
}
