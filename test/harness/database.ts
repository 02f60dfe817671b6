import { inject } from 'vitest'
import { grantGatewayRights } from '../../src/base/db/gateway-role.ts'
import type { Connection } from '../../src/base/db/open-database.ts'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { plantingStatement } from './planted-sql-bug.ts'

export interface TestDatabase {
  /** The owner of the tables, for code that opens its own connections. */
  readonly connection: Connection
  /** The role that gateways serve requests with. */
  readonly gatewayConnection: Connection
  /** The role that signs people in and books payments. */
  readonly deskConnection: Connection
  /** At most 10 connections, with `PATIENT`. */
  readonly pool: Pool
  /** Closes the pool and drops the database, even if connections are open. */
  drop(): Promise<void>
}

/** A statement or lock of a test takes as long as a busy machine needs. Only a hang ends. */
export const PATIENT = { statementTimeoutMs: 120_000, lockTimeoutMs: 110_000, connectTimeoutMs: 120_000 }

/** Creates a database for one test or one file, with all migrations applied. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const template = inject('templateConnection')
  const database = `test_${process.pid}_${++created}`
  await cloneDatabase(template.database!, database)
  const connection: Connection = { ...template, database }
  const gatewayConnection: Connection = { ...connection, ...inject('gatewayLogin') }
  const deskConnection: Connection = { ...connection, ...inject('deskLogin') }
  const pool = createPool(connection, { ...PATIENT, max: 10, applicationName: database })
  const planting = plantingStatement()
  if (planting !== undefined) {
    await pool.query(planting)
    // A function that is replaced loses the attributes that the gateway role needs.
    await grantGatewayRights({ owner: connection, connection: gatewayConnection, desk: deskConnection })
  }
  return {
    connection,
    gatewayConnection,
    deskConnection,
    pool,
    async drop() {
      await pool.end()
      await runOnServer(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
    },
  }
}

let created = 0

export async function cloneDatabase(source: string, copy: string): Promise<void> {
  // FILE_COPY takes three quarters of the time of the default, which writes each page to the WAL. PostgreSQL 14 knows no other way.
  const strategy = inject('postgresMajor') < 15 ? '' : 'STRATEGY FILE_COPY'
  await runOnServer(`CREATE DATABASE ${copy} OWNER ${inject('templateConnection').user} TEMPLATE ${source} ${strategy}`)
}

/** Runs a statement on the server of the tests as its superuser, outside of any test database. */
export async function runOnServer(sql: string): Promise<void> {
  // Not the template database: PostgreSQL cannot clone a database with open connections.
  const pool = createPool(inject('superuser'), {
    max: 1,
    applicationName: 'test databases',
    statementTimeoutMs: 0,
    connectTimeoutMs: 0,
  })
  try {
    await pool.query(sql)
  } finally {
    await pool.end()
  }
}
