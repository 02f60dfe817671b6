import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Logger, runMigrations } from 'graphile-worker'
import type { TestProject } from 'vitest/node'
import { grantGatewayRights } from '../../src/db/gateway-role.ts'
import { migrate } from '../../src/db/migrate.ts'
import { type Connection, openDatabase } from '../../src/db/open-database.ts'
import { createPool } from '../../src/db/pool.ts'
import { installChromium } from './install-chromium.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The PostgreSQL server of this test run and the database that all others are cloned from, with the role that owns it. */
    templateConnection: Connection
    /** The login of the gateway role. */
    gatewayLogin: { readonly user: string; readonly password: string }
  }
}

const TEMPLATE = 'switchyard_template'

/** A slow machine may take longer to copy a database than a gateway waits for a statement. */
const SETUP = { max: 1, applicationName: 'test setup', statementTimeoutMs: 0 }

/** Installs Chromium if needed, starts one PostgreSQL for the whole run, and migrates the database that `createTestDatabase` clones. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  try {
    // Before any test: several tests at once could not install it.
    installChromium()
  } catch (error) {
    console.warn(`No Chromium could be installed, so the tests of pages will fail: ${error}`)
  }
  const dataDir = await mkdtemp(join(tmpdir(), 'switchyard-test-'))
  const server = await openDatabase({
    dataDir,
    log: { info() {}, warn: message => console.warn(message) },
    // Test data does not have to survive a power failure.
    settings: {
      fsync: 'off',
      // Autovacuum workers belong to the superuser, and the tests could not drop a database that one works on.
      autovacuum: 'off',
      full_page_writes: 'off',
      synchronous_commit: 'off',
      max_connections: '300',
    },
  })
  const admin = createPool(server.owner, SETUP)
  await admin.query(`CREATE DATABASE ${TEMPLATE}`)
  await admin.end()
  const templateConnection = { ...server.owner, database: TEMPLATE }
  const gatewayConnection = { ...server.connection, database: TEMPLATE }
  await migrate(templateConnection)
  await grantGatewayRights(templateConnection, gatewayConnection)
  // Creates the tables of graphile-worker once, so that not every test gateway has to.
  const template = createPool(gatewayConnection, SETUP)
  await runMigrations({ pgPool: template.pg, logger: new Logger(() => () => {}) })
  await template.end()
  project.provide('templateConnection', templateConnection)
  const { user, password } = gatewayConnection as { user: string; password: string }
  project.provide('gatewayLogin', { user, password })
  return async () => {
    await server.close()
    await rm(dataDir, { recursive: true, force: true })
  }
}
