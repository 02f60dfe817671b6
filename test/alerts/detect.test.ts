import { randomUUIDv7 } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { type Scheduler, systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { issueKey } from '../../src/identity/auth/keys.ts'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { type AlertWorld, createAlertWorld } from './alert-world.ts'

let world: AlertWorld
beforeAll(async () => {
  world = await createAlertWorld()
})
afterAll(() => world?.close())

const USD = 1_000_000_000n

async function alertsOf(customerId: string) {
  const { rows } = await world.database.pool.query<{
    kind: string
    occurrence: string
    facts: Record<string, unknown>
  }>(
    `SELECT a.kind, a.occurrence, a.facts FROM alert a JOIN alert_rule r USING (rule_id) WHERE r.customer_id = $1
     ORDER BY a.created_at, a.occurrence`,
    [customerId],
  )
  return rows
}

/** Inserts the rows of a settlement that matter here. */
async function spend(customerId: string, nanos: bigint): Promise<void> {
  await world.database.pool.query(
    `UPDATE balance SET posted_nanos = posted_nanos - $2::bigint, day_spent_nanos = CASE WHEN day = today THEN day_spent_nanos ELSE 0 END + $2::bigint, day = today
     FROM (SELECT (now() AT TIME ZONE 'UTC')::date AS today) t WHERE customer_id = $1`,
    [customerId, nanos],
  )
}

async function charge(customerId: string, nanos: bigint, { ageMs = 0 } = {}): Promise<string> {
  const epochMs = Date.now() - ageMs
  const random = randomUUIDv7()
  const time = epochMs.toString(16).padStart(12, '0')
  const requestId = `${time.slice(0, 8)}-${time.slice(8)}${random.slice(13)}`
  await world.database.pool.query(
    `INSERT INTO usage_event (customer_id, request_id, started_at, model_id, provider, input_tokens, output_tokens, usage_source,
       input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, outcome)
     VALUES ($1, $2, to_timestamp($3 / 1000.0), 'qwen', 'local', 1, 1, 'gateway', 1, 1, $4, $4, 0, $4, 1, true, 'finished')`,
    [customerId, requestId, epochMs, nanos],
  )
  return requestId
}

describe('low_balance', () => {
  test('is raised once per crossing, for any number of checks and nodes', async () => {
    const customer = await world.customer(10n * USD)
    await world.rule(customer, { thresholdNanos: 5n * USD })
    const watch = world.watch()
    await watch.check()
    expect(await alertsOf(customer.customerId)).toEqual([])

    await spend(customer.customerId, 6n * USD)
    await Promise.all([watch.check(), world.watch().check(), world.watch().check()])
    await watch.check()
    const facts = { balance_nanos: '4000000000', threshold_nanos: '5000000000' }
    expect(await alertsOf(customer.customerId)).toEqual([{ kind: 'low_balance', occurrence: '1', facts }])

    await grantCredit(world.database.pool, { ...customer, amountNanos: USD, ref: 'top-up', reason: 'x' })
    await watch.check()
    await spend(customer.customerId, 1n)
    await watch.check()
    expect((await alertsOf(customer.customerId)).map(({ occurrence }) => occurrence)).toEqual(['1', '2'])
  })

  test('includes charges of bulk leases that are not folded yet', async () => {
    const customer = await world.customer(10n * USD)
    await world.rule(customer, { thresholdNanos: 5n * USD })
    await world.database.pool.query(
      `WITH held AS (UPDATE balance SET leased_nanos = 7000000000 WHERE customer_id = $1)
       INSERT INTO lease (lease_id, customer_id, node_id, granted_nanos, settled_nanos, slots, slot_minute, cap_day)
       VALUES (gen_random_uuid(), $1, gen_random_uuid(), 7000000000, 6000000000, 10, now(), current_date)`,
      [customer.customerId],
    )
    await world.watch().check()
    expect(await alertsOf(customer.customerId)).toMatchObject([{ facts: { balance_nanos: '4000000000' } }])
  })
})

describe('daily_spend', () => {
  test('is raised at 80 and at 100 %, once per UTC day each', async () => {
    const customer = await world.customer(100n * USD)
    await world.rule(customer, { kind: 'daily_spend' })
    const watch = world.watch()
    await spend(customer.customerId, 7_999_999_999n)
    await watch.check()
    expect(await alertsOf(customer.customerId)).toEqual([])
    await spend(customer.customerId, 1n)
    await watch.check()
    await watch.check()
    expect(await alertsOf(customer.customerId)).toMatchObject([
      { facts: { percent: 80, spent_nanos: '8000000000', cap_nanos: '10000000000' } },
    ])
    await spend(customer.customerId, 2n * USD)
    await watch.check()
    expect((await alertsOf(customer.customerId)).map(({ facts }) => facts.percent)).toEqual([80, 100])

    await world.database.pool.query('UPDATE balance SET day = day + 1 WHERE customer_id = $1', [customer.customerId])
    await watch.check()
    expect(await alertsOf(customer.customerId)).toHaveLength(4)
  })

  test('counts a refusal by the cap as 100 % once 80 % is spent', async () => {
    const customer = await world.customer(100n * USD)
    await world.rule(customer, { kind: 'daily_spend' })
    const watch = world.watch()
    const refused = { customerId: customer.customerId, keyId: 'k' }
    await spend(customer.customerId, 1n * USD)
    watch.noteRefusal(refused, 'daily_spend_cap_reached')
    await watch.check()
    expect(await alertsOf(customer.customerId)).toEqual([])
    await spend(customer.customerId, 8n * USD)
    // A refusal counts at the next check and not at later ones.
    await watch.check()
    expect((await alertsOf(customer.customerId)).map(({ facts }) => facts.percent)).toEqual([80])
    // The other node has just checked and knows of no refusal.
    const slow = world.watch(3_600_000)
    slow.noteRefusal(refused, 'insufficient_credits')
    slow.noteRefusal(refused, 'daily_spend_cap_reached')
    await slow.check()
    expect((await alertsOf(customer.customerId)).map(({ facts }) => facts.percent).sort()).toEqual([100, 80])
  })

  test("uses the customer's own cap, and ignores a cap of zero", async () => {
    const customer = await world.customer(100n * USD)
    await world.rule(customer, { kind: 'daily_spend' })
    const setCap = (nanos: bigint) =>
      world.database.pool.query('UPDATE customer SET daily_spend_cap_nanos = $2 WHERE customer_id = $1', [
        customer.customerId,
        nanos,
      ])
    await setCap(0n)
    await spend(customer.customerId, 1n * USD)
    await world.watch().check()
    expect(await alertsOf(customer.customerId)).toEqual([])
    await setCap(USD)
    await world.watch().check()
    expect(await alertsOf(customer.customerId)).toHaveLength(2)
  })
})

describe('key_limit_reached', () => {
  test('is raised for the refused key, once per window of its limit, and only for rules of its customer', async () => {
    const customer = await world.customer(USD)
    const other = await world.customer(USD)
    await world.rule(customer, { kind: 'key_limit_reached' })
    await world.rule(other, { kind: 'key_limit_reached' })
    const limit = { limitNanos: USD / 2n, reset: 'monthly' as const }
    const { keyId, hint } = await transaction(world.database.pool, sql =>
      issueKey(sql, { customerId: customer.customerId, name: 'laptop', limit }),
    )
    await world.database.pool.query(
      `INSERT INTO key_spend (customer_id, key_id, window_start, spent_nanos)
       VALUES ($1, $2, date_trunc('month', now() AT TIME ZONE 'UTC')::date, 400000000)`,
      [customer.customerId, keyId],
    )
    const watch = world.watch()
    for (let n = 0; n < 3; n++) {
      watch.noteRefusal({ customerId: customer.customerId, keyId }, 'key_spend_limit_reached')
      await watch.check()
    }
    const facts = { key_id: keyId, key_name: 'laptop', key_hint: hint, reset: 'monthly' }
    expect(await alertsOf(customer.customerId)).toMatchObject([
      { kind: 'key_limit_reached', facts: { ...facts, limit_nanos: '500000000', spent_nanos: '400000000' } },
    ])
    expect(await alertsOf(other.customerId)).toEqual([])
    await world.database.pool.query('UPDATE balance SET day = current_date + 40 WHERE customer_id = $1', [
      customer.customerId,
    ])
    watch.noteRefusal({ customerId: customer.customerId, keyId }, 'key_spend_limit_reached')
    await watch.check()
    expect(await alertsOf(customer.customerId)).toHaveLength(2)
  })
})

// A client that kept sending requests at its limit got an alert each midnight that reported no spend, and
// none when it reached the limit again.
test('a refusal before midnight raises an alert for its own window', async () => {
  const customer = await world.customer(USD)
  await world.rule(customer, { kind: 'key_limit_reached' })
  const limit = { limitNanos: USD / 2n, reset: 'daily' as const }
  const { keyId } = await transaction(world.database.pool, sql =>
    issueKey(sql, { customerId: customer.customerId, name: 'laptop', limit }),
  )
  await world.database.pool.query(
    `INSERT INTO key_spend (customer_id, key_id, window_start, spent_nanos)
     SELECT $1, $2, (now() AT TIME ZONE 'UTC')::date - age, 400000000 + age FROM unnest(ARRAY[0, 1]) AS age`,
    [customer.customerId, keyId],
  )
  let nowMs = 0
  const watch = world.watch(0, { ...systemScheduler, monotonicMs: () => nowMs })
  const spent = async () => (await alertsOf(customer.customerId)).map(({ facts }) => facts.spent_nanos)
  for (const [agoMs, reported] of [
    [86_400_000, ['400000001']],
    [0, ['400000001', '400000000']],
  ] as const) {
    watch.noteRefusal({ customerId: customer.customerId, keyId }, 'key_spend_limit_reached')
    nowMs += agoMs
    await watch.check()
    expect(await spent()).toEqual(reported)
  }
})

describe('large_charge', () => {
  test('is raised once for each request from the threshold on, including late rows', async () => {
    const customer = await world.customer(USD)
    const before = await charge(customer.customerId, 3n * USD, { ageMs: 60_000 })
    await world.rule(customer, { kind: 'large_charge', thresholdNanos: USD })
    await world.database.pool.query(
      `UPDATE alert_rule SET created_at = now() - interval '30 minutes' WHERE customer_id = $1`,
      [customer.customerId],
    )
    await world.database.pool.query('DELETE FROM usage_event WHERE request_id = $1', [before])
    const watch = world.watch()
    await charge(customer.customerId, USD - 1n)
    const large = await charge(customer.customerId, USD)
    await watch.check()
    await watch.check()
    const late = await charge(customer.customerId, 2n * USD, { ageMs: 20 * 60_000 })
    await charge(customer.customerId, 2n * USD, { ageMs: 40 * 60_000 })
    await watch.check()
    expect(await alertsOf(customer.customerId)).toMatchObject([
      { occurrence: large, facts: { request_id: large, model: 'qwen', cost_nanos: '1000000000' } },
      { occurrence: late },
    ])
  })

  test('is limited to fifty a day per rule', async () => {
    const customer = await world.customer(USD)
    await world.rule(customer, { kind: 'large_charge', thresholdNanos: USD / 10n })
    for (let n = 0; n < 53; n++) await charge(customer.customerId, USD)
    await world.watch().check()
    await world.watch().check()
    expect(await alertsOf(customer.customerId)).toHaveLength(50)
  })

  test('uses the index of large charges', async () => {
    const { rows } = await world.database.pool.query<{ indexdef: string }>(
      "SELECT indexdef FROM pg_indexes WHERE indexname = 'usage_event_large'",
    )
    expect(rows[0]!.indexdef).toContain('WHERE (cost_nanos >= 100000000)')
  })
})

test('one of several nodes checks, and the next check follows after the pause', async () => {
  const customer = await world.customer(USD)
  await world.rule(customer, { thresholdNanos: 5n * USD })
  await world.database.pool.query("UPDATE alert_watch SET looked_at = '-infinity'")
  const nodes = [world.watch(60_000), world.watch(60_000), world.watch(60_000)]
  const made = await Promise.all(nodes.map(node => node.check()))
  expect(made.filter(count => count > 0)).toEqual([1])
  await world.database.pool.query('UPDATE alert_rule SET is_below = false WHERE customer_id = $1', [
    customer.customerId,
  ])
  expect(await nodes[0]!.check()).toBe(0)
})

// Without this rule no alert was raised until the clock had caught up.
test('a last check in the future, from before the clock was set back, does not stop checks', async () => {
  const customer = await world.customer(USD)
  await world.rule(customer, { thresholdNanos: 5n * USD })
  await world.database.pool.query("UPDATE alert_watch SET looked_at = now() + interval '1 year'")
  const watch = world.watch(60_000)
  await watch.check()
  expect(await alertsOf(customer.customerId)).toHaveLength(1)
  await world.database.pool.query('UPDATE alert_rule SET is_below = false WHERE customer_id = $1', [
    customer.customerId,
  ])
  await watch.check()
  expect(await alertsOf(customer.customerId)).toHaveLength(1)
})

test('noted refusals survive an unavailable database', async () => {
  const customer = await world.customer(100n * USD)
  await world.rule(customer, { kind: 'daily_spend' })
  await world.rule(customer, { kind: 'key_limit_reached' })
  await spend(customer.customerId, 9n * USD)
  const { keyId } = await transaction(world.database.pool, sql =>
    issueKey(sql, { customerId: customer.customerId, name: 'laptop', limit: { limitNanos: USD, reset: 'monthly' } }),
  )
  const watch = world.watch(3_600_000)
  watch.noteRefusal({ customerId: customer.customerId, keyId }, 'daily_spend_cap_reached')
  watch.noteRefusal({ customerId: customer.customerId, keyId }, 'key_spend_limit_reached')
  await world.database.pool.query('ALTER TABLE alert_watch RENAME TO alert_watch_away')
  await expect(watch.check()).rejects.toThrow('alert_watch')
  await world.database.pool.query('ALTER TABLE alert_watch_away RENAME TO alert_watch')
  await watch.check()
  const kinds = (await alertsOf(customer.customerId)).map(({ kind }) => kind)
  expect(kinds.sort()).toEqual(['daily_spend', 'daily_spend', 'key_limit_reached'])
})

test('checks repeat, even after a failed check, until the watch is stopped', async () => {
  const waits: number[] = []
  let due: (() => void) | undefined
  const scheduler: Scheduler = {
    ...systemScheduler,
    after(ms, work) {
      waits.push(ms)
      due = work
      return () => {
        due = undefined
      }
    },
  }
  const isDue = () => expect.poll(() => due, WAIT_OPTIONS).toBeDefined()
  const passTime = () => {
    const work = due!
    due = undefined
    work()
  }
  const customers = [await world.customer(USD), await world.customer(USD)]
  const [first, second] = customers.map(({ customerId }) => customerId)
  await world.rule(customers[0]!, { thresholdNanos: 5n * USD })
  const watch = world.watch(1, scheduler)
  watch.start()
  await world.database.pool.query('ALTER TABLE alert_watch RENAME TO alert_watch_away')
  passTime()
  await isDue()
  await world.database.pool.query('ALTER TABLE alert_watch_away RENAME TO alert_watch')
  expect(world.logged.at(-1)).toContain('could not check for alerts; trying again')
  passTime()
  await isDue()
  expect(await alertsOf(first!)).toHaveLength(1)
  expect(world.logged.at(-1)).toContain('alerts were raised')

  await world.rule(customers[1]!, { thresholdNanos: 5n * USD })
  passTime()
  await watch.stop()
  // stop() waited for the running check, and no other follows.
  expect(await alertsOf(second!)).toHaveLength(1)
  expect([due, waits]).toEqual([undefined, [1, 1, 1]])
  watch.start()
  await watch.stop()
  expect(due).toBeUndefined()
})

test('a removed rule raises no alert', async () => {
  const customer = await world.customer(USD)
  const { rule } = await world.rule(customer, { thresholdNanos: 5n * USD })
  await world.database.pool.query('UPDATE alert_rule SET disabled_at = now() WHERE rule_id = $1', [rule.ruleId])
  await world.watch().check()
  expect(await alertsOf(customer.customerId)).toEqual([])
})
