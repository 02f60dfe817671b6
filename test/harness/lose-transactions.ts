import { cloneDatabase, runOnServer, type TestDatabase } from './database.ts'

/** The database as it was at one moment. */
export interface EarlierDatabase {
  /** Replaces the database by its earlier state. All connections break, and new ones are refused for a moment. */
  failOver(): Promise<void>
}

/**
 * Keeps a copy of the database as it is now, like an asynchronous standby that receives nothing from now on. All
 * connections break, and new ones are refused for a moment. Dropping the test database drops the copy.
 */
export async function copyDatabase({ connection }: TestDatabase): Promise<EarlierDatabase> {
  const live = String(connection.database)
  const copy = `${live}_copy`
  await withoutConnections(live, () => cloneDatabase(live, copy))
  return {
    failOver: () =>
      withoutConnections(live, async () => {
        await runOnServer(`ALTER DATABASE ${live} RENAME TO ${live}_lost`)
        await runOnServer(`ALTER DATABASE ${copy} RENAME TO ${live}`)
        await runOnServer(`DROP DATABASE ${live}_lost WITH (FORCE)`)
      }),
  }
}

async function withoutConnections(database: string, work: () => Promise<void>): Promise<void> {
  await runOnServer(`ALTER DATABASE ${database} ALLOW_CONNECTIONS false`)
  await runOnServer(
    `SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = '${database}' AND backend_type = 'client backend'`,
  )
  await work()
  await runOnServer(`ALTER DATABASE ${database} ALLOW_CONNECTIONS true`)
}
