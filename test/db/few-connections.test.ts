import { expect, it } from 'vitest'
import { connectionsNeeded, warnOfFewConnections } from '../../src/db/few-connections.ts'
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
