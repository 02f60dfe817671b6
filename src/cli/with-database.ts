import { openDatabase } from '../db/embedded.ts'
import { migrate, migrationsDir } from '../db/migrate.ts'
import { createPool, type Pool } from '../db/pool.ts'
import { Failure } from './failure.ts'
import { hasDatabase } from './has-database.ts'
import type { Session } from './verb.ts'

/**
 * Runs `work` on the database of the configuration: beside a running server, or without one, in which case the embedded
 * PostgreSQL runs just as long. Brings the schema up to date first.
 *
 * @param mayCreate whether an embedded PostgreSQL that is not there is created; otherwise that is a Failure, since it is the wrong
 *   directory more often than a new one
 */
export async function withDatabase<T>(
  { config, output }: Session,
  work: (pool: Pool) => Promise<T>,
  { mayCreate = false } = {},
): Promise<T> {
  if (!mayCreate && !hasDatabase(config)) {
    throw new Failure(
      `There is no database in ${config.dataDir}. Is this the server's directory? Set SWITCHYARD_DATA or DATABASE_URL as the server has it, or create a database with npm start or switchyard init.`,
    )
  }
  const database = await openDatabase({
    databaseUrl: config.databaseUrl ?? undefined,
    dataDir: config.dataDir,
    log: { info: output.note, warn: output.note },
  })
  try {
    const tellOfWait = () => output.note('Waiting for another process, which migrates the database')
    const applied = await migrate(database.connection, migrationsDir, tellOfWait)
    for (const { name } of applied) output.note(`Applied migration ${name}`)
    const pool = createPool(database.connection, {
      max: 4,
      applicationName: 'switchyard cli',
      // Nobody waits behind a command, and an audit reads everything.
      statementTimeoutMs: 0,
      lockTimeoutMs: 10_000,
    })
    try {
      return await work(pool)
    } finally {
      await pool.end()
    }
  } finally {
    await database.close()
  }
}
