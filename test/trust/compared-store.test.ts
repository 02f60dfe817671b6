import { expect, test } from 'vitest'
import { COMPARED_BATCH } from '../../src/market/trust/compare-answer.ts'
import { isBroadlySupported, recordCompared } from '../../src/market/trust/evidence/compared-store.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { createCustomers, createHoster, NOW_MS } from './trust-world.ts'

const database = useTestDatabase()

/** How far the answers of a hoster are from the reference, nats. */
const [HONEST, CHEAP] = [0, 6]

function record(hosterId: string, customerId: string | null, value: number) {
  const source = customerId === null ? 'prompt' : 'shadow'
  return recordCompared(database.pool, {
    ...{ hosterId, modelId: 'm', source, customerId, atMs: NOW_MS },
    ...({ kind: 'gap', value } as const),
  })
}

async function recordMany(hosterId: string, customerId: string | null, value: number, count: number) {
  for (let n = 0; n < count; n++) await record(hosterId, customerId, value)
}

async function auditsOf(hosterId: string): Promise<number> {
  const { rowCount } = await database.pool.query("SELECT FROM hoster_audit WHERE hoster_id = $1 AND kind = 'shadow'", [
    hosterId,
  ])
  return rowCount!
}

/** A hoster, and two others of which the gateway knows that they rarely part from the reference. */
async function marketWithHistory(): Promise<string> {
  const [{ hosterId }, ...others] = [
    await createHoster(database),
    await createHoster(database),
    await createHoster(database),
  ]
  for (const other of others)
    await database.pool.query(
      `INSERT INTO compared_answer (hoster_id, model_id, source, kind, value, is_counted, at)
       SELECT $1, 'm', 'prompt', 'gap', CASE WHEN i % 10 = 0 THEN 0.1 ELSE 0 END, true, now() FROM generate_series(1, 200) i`,
      [other.hosterId],
    )
  return hosterId
}

test('a customer has a quarter of an audit at most, and keeps no other waiting', async () => {
  const { hosterId } = await createHoster(database)
  const [largest, other] = await createCustomers(database, 2)
  await recordMany(hosterId, largest!, HONEST, 3 * COMPARED_BATCH)
  await recordMany(hosterId, other!, HONEST, COMPARED_BATCH / 4)
  expect(await auditsOf(hosterId)).toBe(0)
  await recordMany(hosterId, null, HONEST, COMPARED_BATCH / 2)
  expect(await auditsOf(hosterId)).toBe(1)
})

test.each([
  ['one customer, which decides nothing', 1, 5],
  ['two customers, which may have agreed', 2, 2],
  ['three customers', 3, 0],
])('whether comparisons are taken back from a hoster that answers differently to %s', async (_, count, passes) => {
  const hosterId = await marketWithHistory()
  const customers = await createCustomers(database, count)
  await recordMany(hosterId, null, HONEST, 2 * COMPARED_BATCH)
  for (let round = 0; round < 3; round++) {
    for (const customerId of customers) await recordMany(hosterId, customerId, CHEAP, 8)
    await recordMany(hosterId, null, HONEST, COMPARED_BATCH - 8 * count)
  }
  const { rows } = await database.pool.query('SELECT passes FROM hoster_comparison WHERE hoster_id = $1', [hosterId])
  expect(rows).toEqual([{ passes }])
})

test.each([
  ['one customer', 1, false],
  ['two customers', 2, false],
  ['three customers', 3, true],
])('%s: whether differences prove a cheat', async (_, count, isProof) => {
  const hosterId = await marketWithHistory()
  const customers = await createCustomers(database, count)
  for (let round = 0; round < 3; round++) {
    for (const customerId of customers) await recordMany(hosterId, customerId, CHEAP, 8)
    await recordMany(hosterId, null, HONEST, COMPARED_BATCH - 8 * count)
  }
  expect(await auditsOf(hosterId)).toBe(3)
  expect(await isBroadlySupported(database.pool, hosterId)).toBe(isProof)
})

test('differences in the prompts of the gateway prove a cheat alone', async () => {
  const hosterId = await marketWithHistory()
  await recordMany(hosterId, null, CHEAP, COMPARED_BATCH)
  expect(await isBroadlySupported(database.pool, hosterId)).toBe(true)
})

test('customers that are related to a hoster do not decide how far apart the others may be', async () => {
  const hosterId = await marketWithHistory()
  const [puppet] = await createCustomers(database, 1)
  await database.pool.query('INSERT INTO hoster_account (hoster_id, customer_id) VALUES ($1, $2)', [hosterId, puppet])
  await database.pool.query(
    `INSERT INTO compared_answer (hoster_id, model_id, source, customer_id, kind, value, is_counted, at)
     SELECT hoster_id, 'm', 'shadow', $1, 'gap', 6, true, now()
       FROM (SELECT DISTINCT hoster_id FROM compared_answer WHERE hoster_id <> $2) h, generate_series(1, 60)`,
    [puppet, hosterId],
  )
  await recordMany(hosterId, null, CHEAP, COMPARED_BATCH)
  expect(await isBroadlySupported(database.pool, hosterId)).toBe(true)
})
