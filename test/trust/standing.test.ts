import { randomUUID } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { migrate } from '../../src/base/db/migrate.ts'
import type { Scheduler } from '../../src/base/runtime/scheduler.ts'
import { addHosterMember } from '../../src/market/marketplace/hoster-members.ts'
import { setHosterPrice } from '../../src/market/supply/hosters/set-hoster-price.ts'
import { createNewcomers } from '../../src/market/supply/newcomers/newcomers.ts'
import { insertAudit } from '../../src/market/trust/evidence/audit-store.ts'
import { scoreHosters } from '../../src/market/trust/score-hosters.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { useFormerSchema } from '../upgrade/former-migrations.ts'
import { createCustomers, createHoster, insertUsage, NOW_MS } from './trust-world.ts'

// An offer proves itself with 200 answers that three customers have paid for.
const database = useTestDatabase('test')
const query = (text: string, values: unknown[] = []) => database.pool.query(text, values)

test('an offer proves itself with answers that three customers paid for, each for its part', async () => {
  const hoster = await createHoster(database)
  const [first, second, third] = await createCustomers(database, 3)
  await insertUsage(database, { customerId: first!, ...hoster, count: 1_000 })
  await insertUsage(database, { customerId: second!, ...hoster, count: 1_000 })
  await score()
  expect(await standing(hoster)).toBe('open')
  await insertUsage(database, { customerId: third!, ...hoster, count: 66, startedMs: NOW_MS - 600_000 })
  await score(NOW_MS + 3_600_000)
  expect(await standing(hoster)).toBe('open')
  await insertUsage(database, { customerId: third!, ...hoster, count: 1, startedMs: NOW_MS + 3_000_000 })
  await score(NOW_MS + 7_200_000)
  expect(await standing(hoster)).toBe('none')
  // After 90 days without it, a customer does not count any more.
  await score(NOW_MS + 89 * 86_400_000)
  expect(await standing(hoster)).toBe('none')
  await score(NOW_MS + 91 * 86_400_000)
  expect(await standing(hoster)).toBe('open')
})

test('promotion credit earns no standing and no trust', async () => {
  const hoster = await createHoster(database)
  for (const customerId of await createCustomersOnPromotion(4))
    await insertUsage(database, { customerId, ...hoster, count: 500 })
  await score()
  expect(await standing(hoster)).toBe('open')
  expect((await query('SELECT requests FROM hoster_trust')).rows).toEqual([{ requests: 0n }])
})

test('answers count as far as the own money of the customer goes, at all hosters together', async () => {
  const [one, other] = [await createHoster(database), await createHoster(database)]
  const [customerId] = await createCustomersOnPromotion(1)
  // Of 2 USD that are spent, 1 USD was paid.
  await query(`SELECT grant_credit($1, 1000000000, 'paid', 'paid')`, [customerId])
  await query('UPDATE balance SET posted_nanos = 0 WHERE customer_id = $1', [customerId])
  const costNanos = 5_000_000
  await insertUsage(database, { customerId: customerId!, ...one, count: 300, costNanos })
  await score()
  expect(await payersOf(one)).toEqual([{ answers: 200, paid_nanos: 1_000_000_000n }])
  await insertUsage(database, { customerId: customerId!, ...other, count: 100, costNanos, startedMs: NOW_MS - 600_000 })
  await score(NOW_MS + 3_600_000)
  expect(await payersOf(other)).toEqual([])
  // The payment is taken back: nothing more counts, whatever is spent later.
  await query(`SELECT grant_credit($1, 1000000000, 'again', 'paid')`, [customerId])
  await query('UPDATE balance SET posted_nanos = 0 WHERE customer_id = $1', [customerId])
  await query(
    `WITH paid AS (
       INSERT INTO payment (payment_id, customer_id, driver, purpose, amount_nanos, amount_minor, currency, is_live, reference)
       VALUES (gen_random_uuid(), $1, 'manual', 'top_up', 1000000000, 100, 'usd', true, 'r') RETURNING payment_id)
     INSERT INTO payment_reversal (reversal_id, payment_id, customer_id, kind, state, taken_nanos, reason)
     SELECT gen_random_uuid(), payment_id, $1, 'dispute', 'done', 1000000000, 'disputed' FROM paid`,
    [customerId],
  )
  await insertUsage(database, {
    ...{ customerId: customerId!, ...other, count: 100, costNanos },
    startedMs: NOW_MS + 3_000_000,
  })
  await score(NOW_MS + 7_200_000)
  expect(await payersOf(other)).toEqual([])
})

test('customers that turn out to be related to the hoster count for nothing, also after the hoster left', async () => {
  const hoster = await createHoster(database)
  const customers = await createCustomers(database, 3)
  for (const customerId of customers) await insertUsage(database, { customerId, ...hoster, count: 100 })
  await score()
  expect(await standing(hoster)).toBe('none')
  const personId = randomUUID()
  await query('INSERT INTO person (person_id, email) VALUES ($1, $2)', [personId, 'owner@example.com'])
  await addHosterMember(database.pool, { hosterId: hoster.hosterId, personId, role: 'owner' })
  await query(`INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, 'viewer')`, [
    customers[0],
    personId,
  ])
  await score(NOW_MS + 60_000)
  expect(await standing(hoster)).toBe('open')
  await query('DELETE FROM membership')
  await score(NOW_MS + 120_000)
  expect(await standing(hoster)).toBe('open')
})

test('answers at a lower price count in proportion to the current one', async () => {
  const hoster = await createHoster(database)
  const change = (price: bigint) =>
    setHosterPrice(database.pool, hoster.hosterId, {
      modelId: 'm',
      price: { inputPicoPerToken: price, outputPicoPerToken: 0n },
    })
  await change(100n)
  for (const customerId of await createCustomers(database, 3))
    await insertUsage(database, { customerId, ...hoster, priceVersion: 2, count: 100 })
  await score()
  expect(await standing(hoster)).toBe('none')
  await change(4_000n)
  expect(await standing(hoster)).toBe('open')
  await change(100n)
  expect(await standing(hoster)).toBe('none')
  await change(149n)
  expect(await standing(hoster)).toBe('none')
  await change(151n)
  expect(await standing(hoster)).toBe('open')
  await change(10n)
  expect(await standing(hoster)).toBe('none')
})

test('a model of the operator proves itself only after comparisons, and failed ones take them back', async () => {
  const hoster = await createHoster(database)
  for (const customerId of await createCustomers(database, 3))
    await insertUsage(database, { customerId, ...hoster, count: 100 })
  await score()
  expect(await standing(hoster)).toBe('none')
  const compare = async (hasPassed: boolean, times: number) => {
    for (let n = 0; n < times; n++)
      await insertAudit(database.pool, {
        ...{ hosterId: hoster.hosterId, modelId: 'm', kind: 'sampling', eValues: [1], hasPassed, atMs: NOW_MS },
        ...{ statistic: 0.5, sample: 16 },
      })
    return standing(hoster, true)
  }
  expect(await compare(true, 4)).toBe('open')
  expect(await compare(true, 1)).toBe('none')
  expect(await compare(false, 1)).toBe('open')
  // However often it has passed, two failures in a row suffice; an honest hoster fails one in 250.
  expect(await compare(true, 30)).toBe('none')
  expect(await compare(false, 1)).toBe('none')
  expect(await compare(false, 1)).toBe('open')
})

test('offers of an earlier version keep the answers of customers that pay', async () => {
  await useFormerSchema(database.pool, '0040')
  const [proved, promoted] = [await createFormerHoster(), await createFormerHoster()]
  const evidenceOf = (hosterId: string, customerId: string) =>
    query(`INSERT INTO hoster_customer_evidence VALUES ($1, $2, 10, 0, 10, 10, 0, 10, now())`, [hosterId, customerId])
  for (const customerId of await createCustomers(database, 3)) await evidenceOf(proved.hosterId, customerId)
  for (const customerId of await createCustomersOnPromotion(3)) await evidenceOf(promoted.hosterId, customerId)
  for (const { endpointId } of [proved, promoted])
    await query(
      `INSERT INTO server_day (day, endpoint_id, model_id, answered, failed) VALUES (now()::date, $1, 'm', 300, 0)`,
      [endpointId],
    )
  await migrate(database.connection)
  expect(await standing(proved)).toBe('none')
  expect(await standing(promoted)).toBe('open')
  // What they offer needs no approval.
  expect((await query('SELECT model_id, state FROM hoster_model')).rows).toEqual([{ model_id: 'm', state: 'approved' }])
})

/** Customers that have spent 1 USD of promotion credit, and paid nothing. */
async function createCustomersOnPromotion(count: number): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < count; n++) {
    const customer = await addCustomer(database.pool, { email: `${randomUUID()}@example.com`, accountTier: 'standard' })
    ids.push(customer!.customerId)
  }
  await query('SELECT open_account(id, 1000000000) FROM unnest($1::uuid[]) AS id', [ids])
  await query('UPDATE balance SET posted_nanos = 0 WHERE customer_id = ANY ($1)', [ids])
  return ids
}

/** An active hoster in the tables of an earlier version. */
async function createFormerHoster() {
  const [hosterId, endpointId] = [randomUUID(), randomUUID()]
  await query(
    `INSERT INTO hoster (hoster_id, name, state, share_bps, active_since) VALUES ($1::uuid, $1::text, 'active', 8000, now() - interval '40 days')`,
    [hosterId],
  )
  await query(
    `INSERT INTO hoster_endpoint (endpoint_id, hoster_id, base_url) VALUES ($1, $2, 'https://models.example.com/v1')`,
    [endpointId, hosterId],
  )
  await query(
    `INSERT INTO hoster_price (endpoint_id, model_id, version, upstream_model, input_pico_per_token, output_pico_per_token, context_tokens,
       max_output_tokens, valid_from) VALUES ($1, 'm', 1, 'm', 1, 1, 8192, 1024, now() - interval '40 days')`,
    [endpointId],
  )
  return { hosterId, endpointId }
}

/** Runs the job of trust at a time. */
function score(nowMs = NOW_MS): Promise<void> {
  return scoreHosters({
    pool: database.pool,
    clock: { epochMs: () => nowMs, monotonicMs: () => nowMs },
    log: { info() {}, warn() {} },
    delayMs: 15 * 60_000,
  })
}

async function payersOf({ endpointId }: { endpointId: string }) {
  const { rows } = await query('SELECT answers, paid_nanos FROM hoster_payer WHERE endpoint_id = $1', [endpointId])
  return rows
}

/** The standing of the offer at a node that starts. */
async function standing({ endpointId }: { endpointId: string }, isOwn = false) {
  const newcomers = createNewcomers({
    pool: database.pool,
    limits: { successes: 200, payers: 3, inFlight: 5, nanosPerDay: 20_000_000_000n },
    needsComparison: () => isOwn,
    inFlight: () => 0,
    scheduler: { epochMs: () => NOW_MS } as Scheduler,
    log: { warn: vi.fn() },
  })
  await newcomers.refresh()
  return newcomers.standing(`${endpointId}/m`)
}
