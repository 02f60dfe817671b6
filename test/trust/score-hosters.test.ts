import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { AttemptOutcome } from '../../src/base/domain/handoff.ts'
import { addHosterMember } from '../../src/market/marketplace/hoster-members.ts'
import { setTrustScore } from '../../src/market/supply/hosters/hosters.ts'
import { scoreHosters } from '../../src/market/trust/score-hosters.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { createCustomers, createHoster, insertUsage, NOW_MS } from './trust-world.ts'

const database = useTestDatabase('test')

const log = { info() {}, warn() {} }

/** Runs the job at a time. */
function score(nowMs = NOW_MS): Promise<void> {
  return scoreHosters({
    pool: database.pool,
    clock: { epochMs: () => nowMs, monotonicMs: () => nowMs },
    log,
    delayMs: 15 * 60_000,
  })
}

async function trustOf(hosterId: string) {
  const { rows } = await database.pool.query<{
    state: string
    trust_score: number
    quarantined: boolean
    frozen: boolean
    requests: bigint
    components: { name: string; sample: number; rate: number }[]
    audits: number
  }>(
    `SELECT state, trust_score, quarantined_at IS NOT NULL AS quarantined, payout_frozen_at IS NOT NULL AS frozen, requests,
       score -> 'components' AS components, (evidence ->> 'audits')::int AS audits
     FROM hoster LEFT JOIN hoster_trust USING (hoster_id) WHERE hoster_id = $1`,
    [hosterId],
  )
  return rows[0]!
}

const attempt = (endpointId: string, outcome: AttemptOutcome) =>
  ({ offerId: `${endpointId}/m`, endpointId, provider: 'hoster', outcome, elapsedMs: 5 }) as const

test('each usage row counts once, however often and however many nodes run the job', async () => {
  const { hosterId, endpointId } = await createHoster(database)
  for (const customerId of await createCustomers(database, 4))
    await insertUsage(database, { customerId, hosterId, endpointId, count: 25 })
  await Promise.all([score(), score()])
  await score()
  expect(await trustOf(hosterId)).toMatchObject({ requests: 100n, state: 'active' })
  const [customerId] = await createCustomers(database, 1)
  await insertUsage(database, { customerId: customerId!, hosterId, endpointId, count: 10, startedMs: NOW_MS - 60_000 })
  await score(NOW_MS + 60_000)
  // Rows of the last 15 minutes wait, since earlier ones may still come.
  expect(await trustOf(hosterId)).toMatchObject({ requests: 100n })
  await score(NOW_MS + 16 * 60_000)
  expect(await trustOf(hosterId)).toMatchObject({ requests: 110n })
})

test('faults lower reliability; cancelled, rejected and busy attempts and prompts that break two servers do not', async () => {
  const hoster = await createHoster(database)
  const other = await createHoster(database)
  const customers = await createCustomers(database, 3)
  for (const customerId of customers) await insertUsage(database, { customerId, ...hoster, count: 100 })
  const innocent = {
    customerId: customers[0]!,
    hosterId: null,
    endpointId: 'local',
    count: 20,
  }
  for (const outcome of ['busy', 'request_rejected', 'credential_rejected', 'cancelled', 'not_sent'] as const)
    await insertUsage(database, { ...innocent, attempts: [attempt(hoster.endpointId, outcome)] })
  await insertUsage(database, {
    ...innocent,
    outcome: 'unserved',
    attempts: [attempt(hoster.endpointId, 'server_error'), attempt(other.endpointId, 'server_error')],
  })
  await insertUsage(database, { ...innocent, ...hoster, outcome: 'client_gone' })
  await score()
  const before = await trustOf(hoster.hosterId)
  expect(before.components[0]).toMatchObject({ name: 'reliability', rate: 1 })
  expect(before.requests).toBe(300n)

  const later = { startedMs: NOW_MS - 600_000 }
  await insertUsage(database, { ...innocent, ...later, attempts: [attempt(hoster.endpointId, 'server_error')] })
  await insertUsage(database, { ...innocent, ...later, ...hoster, outcome: 'interrupted' })
  await score(NOW_MS + 3_600_000)
  const after = await trustOf(hoster.hosterId)
  expect(after.requests).toBe(340n)
  // 40 faults count as 80 of 380.
  expect(after.components[0]!.rate).toBeCloseTo(300 / 380, 1)
})

test('security 25: the traffic of a customer that shares a member, a network, a browser or a card with the hoster counts for nothing', async () => {
  const hoster = await createHoster(database)
  const [own, neighbour, payer, stranger, flatmate] = await createCustomers(database, 5)
  const people = Array.from({ length: 4 }, () => randomUUID())
  for (const [at, personId] of people.entries()) {
    await database.pool.query('INSERT INTO person (person_id, email) VALUES ($1, $2)', [personId, `p${at}@example.com`])
    await database.pool.query('INSERT INTO person_network (person_id, network, last_used_at) VALUES ($1, $2, now())', [
      personId,
      ['203.0.113.0', '203.0.113.0', '198.51.100.0', '198.51.100.1'][at],
    ])
    await database.pool.query(
      'INSERT INTO person_device (person_id, device_hash, last_used_at) VALUES ($1, $2, now())',
      [personId, Buffer.alloc(32, at === 3 ? 0 : at)],
    )
  }
  await addHosterMember(database.pool, { hosterId: hoster.hosterId, personId: people[0]!, role: 'owner' })
  for (const [customerId, personId] of [
    [own, people[0]],
    [neighbour, people[1]],
    [stranger, people[2]],
    [flatmate, people[3]],
  ])
    await database.pool.query(`INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, 'owner')`, [
      customerId,
      personId,
    ])
  // Another account, paid with the card of the first.
  for (const [customerId, card] of [
    [own, 'stripe:card-1'],
    [payer, 'stripe:card-1'],
    [stranger, 'stripe:card-2'],
  ])
    await database.pool.query(
      `INSERT INTO payment_method (method_id, customer_id, driver, provider_ref, brand, last4, expires, identity)
       VALUES (gen_random_uuid(), $1::uuid, 'stripe', $1::uuid::text, 'visa', '4242', '04/2029', $2)`,
      [customerId, card],
    )
  for (const customerId of [own!, neighbour!, payer!, flatmate!])
    await insertUsage(database, { customerId, ...hoster, count: 200 })
  await insertUsage(database, { customerId: stranger!, ...hoster, count: 7 })
  await score()
  expect(await trustOf(hoster.hosterId)).toMatchObject({ requests: 7n })
  const { rows } = await database.pool.query('SELECT * FROM related_customers($1)', [hoster.hosterId])
  const evidence = (customerId: string, kind: string, detail: string | null) => ({
    ...{ hoster_id: hoster.hosterId, customer_id: customerId, evidence: kind, detail },
  })
  expect(rows).toHaveLength(4)
  expect(rows).toEqual(
    expect.arrayContaining([
      evidence(own!, 'member', 'p0@example.com'),
      evidence(neighbour!, 'network', '203.0.113.0'),
      evidence(flatmate!, 'device', null),
      evidence(payer!, 'payment_method', 'visa 4242'),
    ]),
  )
})

test('security 26: a hoster that reports 6% too much is quarantined, its payouts are frozen, and the ratio is not its own', async () => {
  const hosters = await Promise.all(Array.from({ length: 4 }, () => createHoster(database)))
  const [liar, ...honest] = hosters
  const customers = await createCustomers(database, 12)
  for (let minute = 0; minute < 40; minute++) {
    for (const { hosterId, endpointId } of hosters)
      for (const customerId of customers.slice(0, 10))
        await insertUsage(database, {
          ...{ customerId, hosterId, endpointId, count: 4, startedMs: NOW_MS - 3_500_000 + minute * 60_000 },
          ratio: hosterId === liar!.hosterId ? 1.2 * 1.06 : 1.2,
        })
  }
  await score()
  expect(await trustOf(liar!.hosterId)).toMatchObject({
    ...{ state: 'suspended', trust_score: 0, quarantined: true, frozen: true },
  })
  expect((await trustOf(liar!.hosterId)).audits).toBeLessThanOrEqual(70)
  for (const { hosterId } of honest)
    expect(await trustOf(hosterId)).toMatchObject({ state: 'active', quarantined: false })
  const { rows: ratios } = await database.pool.query<{ ratio: { input: number } }>('SELECT ratio FROM meter_ratio')
  expect(ratios).toEqual([{ ratio: expect.objectContaining({ input: expect.closeTo(1.2, 2), isLearned: true }) }])
  const { rows: log } = await database.pool.query<{ detail: object }>(
    `SELECT detail FROM audit_entry WHERE action = 'hoster.state_changed' AND detail->>'by' = 'system'`,
  )
  expect(log.map(({ detail }) => detail)).toEqual([
    expect.objectContaining({ to: 'suspended', by: 'system', reason: expect.stringContaining('more tokens') }),
  ])
})

test('the score of the operator replaces the earned one until it is taken back', async () => {
  const { hosterId } = await createHoster(database)
  await setTrustScore(database.pool, hosterId, 0.93)
  await score()
  expect(await trustOf(hosterId)).toMatchObject({ trust_score: 0.93 })
  await setTrustScore(database.pool, hosterId, null)
  expect(await trustOf(hosterId)).toMatchObject({ trust_score: 0 })
})

test('answers that are too long or name another model lower conformance', async () => {
  const hoster = await createHoster(database)
  const customers = await createCustomers(database, 3)
  for (const customerId of customers) await insertUsage(database, { customerId, ...hoster, count: 40 })
  const breaches = ['max_tokens'] as const
  const answered = { ...attempt(hoster.endpointId, 'answered'), breaches }
  await insertUsage(database, { customerId: customers[0]!, ...hoster, count: 10, attempts: [answered] })
  await score()
  const { components } = await trustOf(hoster.hosterId)
  // 10 of 130 answers, each of which counts twice.
  expect(components[2]!.name).toBe('conformance')
  expect(Math.abs(components[2]!.rate - 120 / 140)).toBeLessThan(0.05)
  expect(components[0]).toMatchObject({ name: 'reliability', rate: 1 })
})
