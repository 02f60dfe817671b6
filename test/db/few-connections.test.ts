import { expect, it } from 'vitest'
import { connectionsNeeded, warnOfFewConnections } from '../../src/base/db/few-connections.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { createTestDatabase } from '../harness/database.ts'

it('warns when the database allows fewer connections than a node may need', async () => {
  const needed = connectionsNeeded({ moneyConnections: 6, generalConnections: 8 }, 1)
  const warnings: unknown[][] = []
  const log = { warn: (...line: unknown[]) => void warnings.push(line) }
  const db = await createTestDatabase()
  await warnOfFewConnections(db.pool, needed, log)
  expect(warnings).toEqual([])
  await db.pool.query(`ALTER DATABASE ${db.connection.database} CONNECTION LIMIT 12`)
  await warnOfFewConnections(db.pool, needed, log)
  await warnOfFewConnections(db.pool, 1_000, log)
  expect(warnings).toEqual([
    [
      { allowed: 12, needed },
      expect.stringMatching(/^the database allows fewer connections .* raise its CONNECTION LIMIT/),
    ],
    [{ allowed: 12, needed: 1_000 }, expect.anything()],
  ])
  await db.drop()
})

it('warns about the limit of PostgreSQL, less the connections reserved for superusers', async () => {
  const warnings: unknown[][] = []
  const log = { warn: (...line: unknown[]) => void warnings.push(line) }
  const db = await createTestDatabase()
  const { rows } = await db.pool.query<{ max_connections: string }>('SHOW max_connections')
  const reservedForSuperusers = 3
  const allowed = Number(rows[0]!.max_connections) - reservedForSuperusers
  await warnOfFewConnections(db.pool, allowed, log)
  expect(warnings).toEqual([])
  await warnOfFewConnections(db.pool, allowed + 1, log)
  expect(warnings).toEqual([
    [{ allowed, needed: allowed + 1 }, expect.stringMatching(/^PostgreSQL allows fewer .* raise its max_connections/)],
  ])
  await db.drop()
})

it('warns about the limit of the role', async () => {
  const warnings: unknown[][] = []
  const db = await createTestDatabase()
  // All tests share the role, so a view in this database only pretends that its limit is low.
  await db.pool.query('CREATE VIEW pg_roles AS SELECT session_user AS rolname, 7 AS rolconnlimit')
  await db.pool.query(`ALTER DATABASE ${db.connection.database} SET search_path = public, pg_catalog`)
  const pool = createPool(db.connection, { max: 1, applicationName: 'few connections' })
  await warnOfFewConnections(pool, 20, { warn: (...line) => void warnings.push(line) })
  await pool.end()
  expect(warnings).toEqual([
    [{ allowed: 7, needed: 20 }, expect.stringMatching(/^the role allows fewer .* raise its CONNECTION LIMIT/)],
  ])
  await db.drop()
})
