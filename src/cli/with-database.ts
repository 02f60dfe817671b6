import { openDatabase } from '../db/embedded.ts'
import { migrate, migrationsDir, pendingMigrations } from '../db/migrate.ts'
import { createPool, type Pool } from '../db/pool.ts'
import { Failure } from './failure.ts'
import { hasDatabase } from './has-database.ts'
import type { Session } from './verb.ts'

/**
 * Runs `work` on the database of the configuration: beside a running server, or without one, in which case the embedded
 * PostgreSQL runs just as long. Brings the schema up to date first, which is a Failure under a server of an older version that runs.
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
    const pool = createPool(database.connection, {
      max: 4,
      applicationName: 'switchyard cli',
      // Nobody waits behind a command, and an audit reads everything.
      statementTimeoutMs: 0,
      lockTimeoutMs: 10_000,
    })
    try {
      await requireNoOlderServer(pool)
      const tellOfWait = () => output.note('Waiting for another process, which migrates the database')
      const applied = await migrate(database.connection, migrationsDir, tellOfWait)
      for (const { name } of applied) output.note(`Applied migration ${name}`)
      return await work(pool)
    } finally {
      await pool.end()
    }
  } finally {
    await database.close()
  }
}

/** After an upgrade and before its restart the server that runs needs the tables it began with. */
async function requireNoOlderServer(pool: Pool): Promise<void> {
  const pending = await pendingMigrations(pool)
  if (pending.length === 0) return
  const { rows: tables } = await pool.query<{ found: boolean }>("SELECT to_regclass('node') IS NOT NULL AS found")
  if (!tables[0]!.found) return
  const { rows: nodes } = await pool.query("SELECT FROM node WHERE state = 'alive' AND expires_at > now() LIMIT 1")
  if (nodes.length === 0) return
  throw new Failure(
    `A Switchyard server of an older version uses this database, and this command would change its tables under it (${pending.join(', ')}). Restart the server with this version first.`,
  )
}
