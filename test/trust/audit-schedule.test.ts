import { expect, test } from 'vitest'
import { readDensities } from '../../src/market/trust/audits/read-densities.ts'
import { scheduleAudits } from '../../src/market/trust/audits/schedule-audits.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { createCustomers, createHoster, insertUsage, NOW_MS } from './trust-world.ts'

const database = useTestDatabase()
const MINUTE_MS = 60_000

/** Plans audits, and returns how long after this one the next audit of an endpoint comes, in minutes. */
async function pauseOf(endpointId: string, given: { drawn?: number; gapMs?: number; referenceModels?: string[] } = {}) {
  const { drawn = 1 - Math.exp(-1), gapMs = 0, referenceModels = [] } = given
  await database.pool.query(
    `UPDATE hoster_endpoint SET next_audit_at = CASE WHEN endpoint_id = $1 THEN $2::timestamptz ELSE 'infinity' END`,
    [endpointId, new Date(NOW_MS)],
  )
  const schedule = { nowMs: NOW_MS, meanPauseMs: 12 * MINUTE_MS, random: () => drawn, drawGapMs: () => gapMs }
  expect(await scheduleAudits(database.pool, { ...schedule, referenceModels })).toBe(1)
  const { rows } = await database.pool.query<{ next: Date }>(
    'SELECT next_audit_at AS next FROM hoster_endpoint WHERE endpoint_id = $1',
    [endpointId],
  )
  return (rows[0]!.next.getTime() - NOW_MS) / MINUTE_MS
}

test('an audit plans the next one after a drawn pause, and never sooner than requests of customers follow each other', async () => {
  const { endpointId } = await createHoster(database)
  expect(await pauseOf(endpointId)).toBeCloseTo(12)
  expect(await pauseOf(endpointId, { drawn: 0, gapMs: 90_000 })).toBeCloseTo(1.5)
  // Not even a long gap makes audits rare.
  expect(await pauseOf(endpointId, { drawn: 0, gapMs: 3_600_000 })).toBeCloseTo(3)
})

test('a hoster with a model of the operator is audited four times as often until it was compared enough', async () => {
  const { hosterId, endpointId } = await createHoster(database)
  const pass = (passes: number) =>
    database.pool.query(
      `INSERT INTO hoster_comparison (hoster_id, model_id, passes) VALUES ($1, 'm', $2)
       ON CONFLICT (hoster_id, model_id) DO UPDATE SET passes = $2`,
      [hosterId, passes],
    )
  expect(await pauseOf(endpointId, { referenceModels: ['other'] })).toBeCloseTo(12)
  expect(await pauseOf(endpointId, { referenceModels: ['m'] })).toBeCloseTo(3)
  await pass(4)
  expect(await pauseOf(endpointId, { referenceModels: ['m'] })).toBeCloseTo(3)
  await pass(5)
  expect(await pauseOf(endpointId, { referenceModels: ['m'] })).toBeCloseTo(12)
})

test('audits follow the traffic of the models: denser while there is more than usual, rarer while there is less', async () => {
  const [customerId] = await createCustomers(database, 1)
  const hoster = await createHoster(database)
  const density = async () => (await readDensities(database.pool, [hoster.endpointId], NOW_MS)).get(hoster.endpointId)!
  expect(await density()).toBe(1)
  // 36 hours since yesterday at noon: 20 requests in 15 minutes.
  await database.pool.query(
    `INSERT INTO hoster_attempt_day (hoster_id, day, model_id, outcome, attempts) VALUES ($1, '2026-11-24', 'm', 'answered', 2880)`,
    [hoster.hosterId],
  )
  expect(await density()).toBe(0.25)
  const rows = { ...hoster, customerId: customerId! }
  await insertUsage(database, { ...rows, count: 44, startedMs: NOW_MS - 10 * MINUTE_MS })
  expect(await density()).toBeCloseTo(2)
  expect(await pauseOf(hoster.endpointId)).toBeCloseTo(6)
  await insertUsage(database, { ...rows, count: 500, startedMs: NOW_MS - 14 * MINUTE_MS })
  expect(await density()).toBe(4)
})
