import { expect, it } from 'vitest'
import { connectionsNeeded, warnOfFewConnections } from '../../src/db/few-connections.ts'
import { createPool } from '../../src/db/pool.ts'
import { createTestDatabase } from '../harness/database.ts'

it('says at the start that the database or its role allows fewer connections than a node may want', async () => {
  const needed = connectionsNeeded({ moneyConnections: 6, generalConnections: 8 }, 1)
  const said: unknown[][] = []
  const log = { warn: (...line: unknown[]) => void said.push(line) }
  const db = await createTestDatabase()
  await warnOfFewConnections(db.pool, needed, log)
  expect(said).toEqual([])
  await db.pool.query(`ALTER DATABASE ${db.connection.database} CONNECTION LIMIT 12`)
  await warnOfFewConnections(db.pool, needed, log)
  await warnOfFewConnections(db.pool, 1_000, log)
  expect(said).toEqual([
    [
      { allowed: 12, needed },
      expect.stringMatching(/^the database allows fewer connections .* raise its CONNECTION LIMIT/),
    ],
    [{ allowed: 12, needed: 1_000 }, expect.anything()],
  ])
  await db.drop()
})

it('says so of PostgreSQL itself, where others may take what superusers do not keep for themselves', async () => {
  const said: unknown[][] = []
  const log = { warn: (...line: unknown[]) => void said.push(line) }
  const db = await createTestDatabase()
  const { rows } = await db.pool.query<{ max_connections: string }>('SHOW max_connections')
  const keptForSuperusers = 3
  const allowed = Number(rows[0]!.max_connections) - keptForSuperusers
  await warnOfFewConnections(db.pool, allowed, log)
  expect(said).toEqual([])
  await warnOfFewConnections(db.pool, allowed + 1, log)
  expect(said).toEqual([
    [{ allowed, needed: allowed + 1 }, expect.stringMatching(/^PostgreSQL allows fewer .* raise its max_connections/)],
  ])
  await db.drop()
})

it('says so of the role', async () => {
  const said: unknown[][] = []
  const db = await createTestDatabase()
  // The role is that of all tests, so its limit is only said to be low, and only in here.
  await db.pool.query('CREATE VIEW pg_roles AS SELECT session_user AS rolname, 7 AS rolconnlimit')
  await db.pool.query(`ALTER DATABASE ${db.connection.database} SET search_path = public, pg_catalog`)
  const pool = createPool(db.connection, { max: 1, applicationName: 'few connections' })
  await warnOfFewConnections(pool, 20, { warn: (...line) => void said.push(line) })
  await pool.end()
  expect(said).toEqual([
    [{ allowed: 7, needed: 20 }, expect.stringMatching(/^the role allows fewer .* raise its CONNECTION LIMIT/)],
  ])
  await db.drop()
})
