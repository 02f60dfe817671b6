import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Logger, runMigrations } from 'graphile-worker'
import type { TestProject } from 'vitest/node'
import { type Connection, openDatabase } from '../../src/db/embedded.ts'
import { migrate } from '../../src/db/migrate.ts'
import { createPool } from '../../src/db/pool.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The PostgreSQL of this test run, with the database all others are cloned from. */
    templateConnection: Connection
  }
}

const TEMPLATE = 'switchyard_template'

/** Starts one PostgreSQL for the whole run and migrates the database that `createTestDatabase` clones. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = await mkdtemp(join(tmpdir(), 'switchyard-test-'))
  const server = await openDatabase({
    dataDir,
    log: { info() {}, warn: message => console.warn(message) },
    // Nothing here has to survive a power cut.
    settings: {
      fsync: 'off',
      // Its workers belong to the superuser, so that a database they look at cannot be dropped by us.
      autovacuum: 'off',
      full_page_writes: 'off',
      synchronous_commit: 'off',
      max_connections: '300',
    },
  })
  const admin = createPool(server.connection, { max: 1, applicationName: 'test setup' })
  await admin.query(`CREATE DATABASE ${TEMPLATE}`)
  await admin.end()
  const templateConnection = { ...server.connection, database: TEMPLATE }
  await migrate(templateConnection)
  // graphile-worker brings its own tables; made here they are not made again by every gateway that a test starts.
  const template = createPool(templateConnection, { max: 1, applicationName: 'test setup' })
  await runMigrations({ pgPool: template.pg, logger: new Logger(() => () => {}) })
  await template.end()
  project.provide('templateConnection', templateConnection)
  return async () => {
    await server.close()
    await rm(dataDir, { recursive: true, force: true })
  }
}
