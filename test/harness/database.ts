import { inject } from 'vitest'
import { grantGatewayRights } from '../../src/db/gateway-role.ts'
import type { Connection } from '../../src/db/open-database.ts'
import { createPool, type Pool } from '../../src/db/pool.ts'
import { plantingStatement } from './planted-sql-bug.ts'

export interface TestDatabase {
  /** The owner of the tables, for code that opens its own connections. */
  readonly connection: Connection
  /** The role that gateways serve requests with. */
  readonly gatewayConnection: Connection
  /** At most 10 connections with the timeouts of production. */
  readonly pool: Pool
  /** Closes the pool and drops the database, even if connections are open. */
  drop(): Promise<void>
}

/** Creates a database for one test or one file, with all migrations applied. */
export async function createTestDatabase(): Promise<TestDatabase> {
  const template = inject('templateConnection')
  const database = `test_${process.pid}_${++created}`
  // FILE_COPY takes three quarters of the time of the default, which writes each page to the WAL.
  await runOnServer(`CREATE DATABASE ${database} TEMPLATE ${template.database} STRATEGY FILE_COPY`)
  const connection: Connection = { ...template, database }
  const gatewayConnection: Connection = { ...connection, ...inject('gatewayLogin') }
  const pool = createPool(connection, { max: 10, applicationName: database })
  const planting = plantingStatement()
  if (planting !== undefined) {
    await pool.query(planting)
    // A function that is replaced loses the attributes that the gateway role needs.
    await grantGatewayRights(connection, gatewayConnection)
  }
  return {
    connection,
    gatewayConnection,
    pool,
    async drop() {
      await pool.end()
      await runOnServer(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`)
    },
  }
}

let created = 0

/** Runs a statement on the server of the tests, outside of any test database. */
export async function runOnServer(sql: string): Promise<void> {
  // Not the template database: PostgreSQL cannot clone a database with open connections.
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
