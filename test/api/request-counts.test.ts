import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useTestApp, useTestDatabase, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const offers = () => [testOffer(upstream.baseUrl)]
const gateway = useTestApp(() => ({ offers: offers(), yaml: 'settlement: journal' }))

const free = { requestsPerMinute: 20, requestsPerDay: 1_000, dailySpendCapNanos: 5_000_000_000n }
const scale = { requestsPerMinute: 1_000, requestsPerDay: 1_000_000, dailySpendCapNanos: 5_000_000_000_000n }

test.each([
  ['a small limit', free],
  ['a large limit', scale],
])('with %s, reports and headers count the requests that were made', (_, limits) =>
  inOneMinute(async () => {
    const customer = await gateway.customer({ limits })
    for (let made = 1; made <= 12; made++) {
      const { remaining, remainingToday } = await ask(gateway, customer)
      expect([made, remaining, remainingToday]).toEqual([
        made,
        limits.requestsPerMinute - made,
        limits.requestsPerDay - made,
      ])
      expect(await counts(gateway, customer)).toEqual(made)
    }
    // A request that is refused for its fields is not counted.
    const invalid = await gateway.chat(customer, { model: 'test-model' })
    expect([invalid.status, invalid.headers.get('x-ratelimit-remaining-requests')]).toEqual([
      400,
      String(limits.requestsPerMinute - 12),
    ])
  }),
)

test('the limit is reached after exactly as many requests as it allows', () =>
  inOneMinute(async () => {
    const customer = await gateway.customer({ limits: free })
    for (let made = 1; made <= 20; made++) expect((await ask(gateway, customer)).remaining).toBe(20 - made)
    const refused = await gateway.chat(customer, chat())
    expect([refused.status, refused.headers.get('x-ratelimit-remaining-requests')]).toEqual([429, '0'])
    await refused.text()
    expect(await counts(gateway, customer)).toBe(20)
  }))

test('requests at the same time, and leases that replace each other, are counted once each', () =>
  inOneMinute(async () => {
    const customer = await gateway.customer({ limits: scale })
    let made = 0
    for (const burst of [1, 40, 3, 90, 150, 1]) {
      const answers = await Promise.all(Array.from({ length: burst }, () => ask(gateway, customer)))
      made += burst
      expect(Math.min(...answers.map(({ remaining }) => remaining))).toBe(1_000 - made)
      expect(await counts(gateway, customer)).toBe(made)
    }
  }))

test('requests of keys with and without a spend limit count together', () =>
  inOneMinute(async () => {
    const customer = await gateway.customer({ limits: scale })
    const limited = await gateway.anotherKey(customer, { limit: { limitNanos: 1_000_000_000n, reset: 'none' } })
    for (let made = 1; made <= 10; made++) {
      expect((await ask(gateway, made % 3 === 0 ? limited : customer)).remaining).toBe(1_000 - made)
      expect(await counts(gateway, limited)).toBe(made)
    }
  }))

test('only running requests are held, to the nano-USD', () =>
  inOneMinute(async () => {
    const customer = await gateway.customer({ limits: scale })
    for (let made = 1; made <= 6; made++) {
      await ask(gateway, customer)
      expect(await heldNanos(gateway, customer)).toBe(0)
    }
    await using held = holdAnswers()
    const sentBefore = upstream.requests.length
    held.running.push(ask(gateway, customer), ask(gateway, customer))
    await expect.poll(() => upstream.requests.length, { interval: 1 }).toBe(sentBefore + 2)
    expect(await heldNanos(gateway, customer)).toBe(2 * (await holdOf(gateway, customer)))
    await held.release()
    expect(await heldNanos(gateway, customer)).toBe(0)
  }))

const database = useTestDatabase()
const masterKey = randomBytes(32)
// Polling asks for more reports in a minute than a customer may.
const yaml = 'settlement: journal\nreports: { requests_per_minute: 1000000 }'
const nodes = [0, 1].map(() =>
  useResource(
    () => startTestApp({ offers: offers(), yaml, database, masterKey }),
    node => node.close(),
  ),
) as [TestApp, TestApp]

test('each of two nodes counts the requests and the holds of both', () =>
  inOneMinute(async () => {
    const [a, b] = nodes
    const customer = await a.customer({ limits: scale })
    for (let i = 0; i < 7; i++) await ask(a, customer)
    for (let i = 0; i < 5; i++) await ask(b, customer)
    for (const node of nodes) await expect.poll(() => counts(node, customer), WAIT_OPTIONS).toBe(12)
    // The next request of each node counts those of the other one.
    await expect.poll(async () => (await invalid(a, customer)).remaining, WAIT_OPTIONS).toBe(1_000 - 12)
    await expect.poll(async () => (await invalid(b, customer)).remaining, WAIT_OPTIONS).toBe(1_000 - 12)

    await using held = holdAnswers()
    held.running.push(ask(a, customer), ask(a, customer), ask(b, customer))
    for (const node of nodes) await expect.poll(() => counts(node, customer), WAIT_OPTIONS).toBe(15)
    const heldByThree = 3 * (await holdOf(a, customer))
    for (const node of nodes) await expect.poll(() => heldNanos(node, customer), WAIT_OPTIONS).toBe(heldByThree)
    await held.release()
    for (const node of nodes) await expect.poll(() => heldNanos(node, customer), WAIT_OPTIONS).toBe(0)
  }))

/**
 * Runs a scenario with a customer of its own. A scenario that failed while the minute changed is run again: the counts of
 * that minute began again in the middle of it.
 */
async function inOneMinute(scenario: () => Promise<void>): Promise<void> {
  for (;;) {
    upstream.always(answer({ usage: usageOf(10, 5) }))
    const minute = await minuteOfDatabase()
    try {
      return await scenario()
    } catch (error) {
      if (minute === (await minuteOfDatabase())) throw error
    }
  }
}

async function minuteOfDatabase(): Promise<string> {
  const { rows } = await database.pool.query<{ minute: string }>("SELECT date_trunc('minute', now())::text AS minute")
  return rows[0]!.minute
}

/** The upstream answers the running requests only after `release`, or at the end of the scenario. */
function holdAnswers() {
  const gate = Promise.withResolvers<void>()
  upstream.always(async (request, response) => {
    await gate.promise
    await answer({ usage: usageOf(10, 5) })(request, response)
  })
  const running: Promise<unknown>[] = []
  const release = async () => {
    gate.resolve()
    await Promise.all(running)
  }
  return { running, release, [Symbol.asyncDispose]: release }
}

/** What each request of this file holds, nano-USD. */
async function holdOf(node: TestApp, customer: TestCustomer): Promise<number> {
  return Number((await node.usage(customer))[0]!.hold_nanos)
}

const chat = () => ({ model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] })

async function ask(node: TestApp, customer: TestCustomer) {
  const response = await node.chat(customer, chat())
  expect(response.status).toBe(200)
  await response.text()
  return remainingOf(response)
}

async function invalid(node: TestApp, customer: TestCustomer) {
  const response = await node.chat(customer, { model: 'test-model' })
  expect(response.status).toBe(400)
  await response.text()
  return remainingOf(response)
}

function remainingOf({ headers }: Response) {
  return {
    remaining: Number(headers.get('x-ratelimit-remaining-requests')),
    remainingToday: Number(headers.get('x-ratelimit-remaining-requests-day')),
  }
}

/** The requests of this minute in GET /v1/usage. All other counts of that report and of GET /v1/key must agree. */
async function counts(node: TestApp, customer: TestCustomer): Promise<number> {
  const limitsOf = async (path: string) =>
    ((await (await node.get(customer, path)).json()) as { rate_limits: Record<string, number> }).rate_limits
  const [usage, key] = await Promise.all([limitsOf('/v1/usage'), limitsOf('/v1/key')])
  const { requests_this_minute: made, requests_today, ...rest } = usage
  expect(requests_today).toBe(made)
  expect(rest).toMatchObject({
    remaining_this_minute: rest.limit_per_minute! - made!,
    remaining_today: rest.limit_per_day! - made!,
  })
  expect(key).toEqual(rest)
  return made!
}

async function heldNanos(node: TestApp, customer: TestCustomer): Promise<number> {
  const { held_usd } = (await (await node.get(customer, '/v1/credits')).json()) as { held_usd: number }
  return Math.round(held_usd * 1e9)
}
