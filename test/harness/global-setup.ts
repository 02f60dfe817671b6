import { appendFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Logger, runMigrations } from 'graphile-worker'
import type { TestProject } from 'vitest/node'
import { embeddedCluster, newLogin } from '../../src/base/db/embedded-cluster.ts'
import { grantGatewayRights } from '../../src/base/db/gateway-role.ts'
import { migrate } from '../../src/base/db/migrate.ts'
import type { Connection } from '../../src/base/db/open-database.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { embeddedBuild } from '../../src/base/db/postgres-programs.ts'
import { SOCKET_PORT } from '../../src/base/db/postgres-socket.ts'
import { installChromium } from './install-chromium.ts'
import { CHANGED_SETTINGS, defaultBuild } from './postgres-build.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The PostgreSQL server of this test run and the database that all others are cloned from, with the role that owns it. */
    templateConnection: Connection
    /** The login of the gateway role. */
    gatewayLogin: { readonly user: string; readonly password: string }
    /** The login of the desk role. */
    deskLogin: { readonly user: string; readonly password: string }
    /** May do everything on the server. */
    superuser: Connection
    postgresMajor: number
    /** The programs of a PostgreSQL to run with its default settings; undefined: the embedded one. */
    postgresPrograms?: string
  }
}

const TEMPLATE = 'switchyard_template'

/** Test data does not have to survive a power failure. */
const QUICK = { ...CHANGED_SETTINGS, autovacuum: 'off', full_page_writes: 'off', synchronous_commit: 'off' }

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
  const programs = project.getProvidedContext().postgresPrograms
  const build = programs === undefined ? embeddedBuild() : defaultBuild(programs)
  const cluster = embeddedCluster(dataDir, build)
  const login = newLogin()
  await cluster.create(login)
  // Only the superuser may end autovacuum workers, which would keep a database from being dropped.
  appendFileSync(join(cluster.directory, 'pg_hba.conf'), 'local all postgres trust\n')
  process.once('exit', () => cluster.requestStop())
  const host = await cluster.start(programs === undefined ? QUICK : CHANGED_SETTINGS)
  const server = { host, port: SOCKET_PORT, database: login.database }
  const superuser: Connection = { ...server, user: 'postgres' }
  const admin = createPool(superuser, SETUP)
  await admin.query(`CREATE DATABASE ${TEMPLATE} OWNER ${login.user}`)
  await admin.end()
  // Before PostgreSQL 15, the schema of a new database belongs to the superuser: see docs/operating.md.
  if (Number(build.major) < 15) {
    const database = createPool({ ...superuser, database: TEMPLATE }, SETUP)
    await database.query(`ALTER SCHEMA public OWNER TO ${login.user}`)
    await database.end()
  }
  const templateConnection = { ...server, database: TEMPLATE, user: login.user, password: login.password }
  const gatewayLogin = { user: login.gatewayUser, password: login.gatewayPassword }
  const deskLogin = { user: login.deskUser, password: login.deskPassword }
  const gatewayConnection = { ...templateConnection, ...gatewayLogin }
  await migrate(templateConnection)
  await grantGatewayRights({
    owner: templateConnection,
    connection: gatewayConnection,
    desk: { ...templateConnection, ...deskLogin },
  })
  // Creates the tables of graphile-worker once, so that not every test gateway has to.
  const template = createPool(gatewayConnection, SETUP)
  await runMigrations({ pgPool: template.pg, logger: new Logger(() => () => {}) })
  await template.end()
  project.provide('templateConnection', templateConnection)
  project.provide('gatewayLogin', gatewayLogin)
  project.provide('deskLogin', deskLogin)
  project.provide('superuser', superuser)
  project.provide('postgresMajor', Number(build.major))
  return async () => {
    await cluster.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
}
