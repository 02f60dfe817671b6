import { afterAll, beforeAll, expect, test } from 'vitest'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestDatabase, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const database = useTestDatabase()
let gateway: TestApp
const start = () =>
  startTestApp({
    database,
    offers: [testOffer(upstream.baseUrl)],
    yaml: 'reports: { requests_per_minute: 3 }',
    clock: { epochMs: () => reportsNowMs, monotonicMs: () => performance.now() },
  })

beforeAll(async () => {
  // Here, because the file may be loaded long before its tests run.
  reportsNowMs = Date.now()
  gateway = await start()
})
afterAll(() => gateway?.close())

const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }

/** The rate limit of usage reports follows the gateway's clock, which is fixed here. The one of chats follows PostgreSQL's. */
let reportsNowMs: number

const customer = (requestsPerMinute: number, requestsPerDay: number): Promise<TestCustomer> =>
  gateway.customer({ limits: { requestsPerMinute, requestsPerDay } })

const limits = (response: Response) =>
  Object.fromEntries(
    ['limit', 'remaining'].flatMap(name =>
      ['', '-day'].map(window => [
        `${name}${window}`,
        Number(response.headers.get(`x-ratelimit-${name}-requests${window}`)),
      ]),
    ),
  )

test('the minute limit counts down and then refuses with a wait in whole seconds', async () => {
  const caller = await customer(3, 100)
  for (const remaining of [2, 1, 0]) {
    const response = await gateway.chat(caller, hello)
    expect(response.status).toBe(200)
    expect(limits(response)).toEqual({ limit: 3, 'limit-day': 100, remaining, 'remaining-day': 97 + remaining })
  }
  const refused = await gateway.chat(caller, hello)
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  // The customer's windows start a minute in the future, and the wait is rounded up.
  expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(121)
  expect(refused.headers.get('x-should-retry')).toBeNull()
  expect(limits(refused)).toMatchObject({ remaining: 0 })
  expect(refused.headers.get('x-ratelimit-reset-requests')).toMatch(/^\d+s$/)
  const error = await readError(refused)
  expect(error).toMatchObject({ status: 429, type: 'rate_limit_error', code: 'rate_limit_exceeded', param: null })
  expect(error.message).toContain('3 requests per minute')
})

test('the day limit also advises against an automatic retry', async () => {
  const caller = await customer(100, 2)
  for (let served = 0; served < 2; served++) expect((await gateway.chat(caller, hello)).status).toBe(200)
  const refused = await gateway.chat(caller, { ...hello, stream: true })
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(refused.headers.get('x-should-retry')).toBe('false')
  const error = await readError(refused)
  expect(error).toMatchObject({ status: 429, type: 'rate_limit_error', code: 'daily_limit_exceeded' })
  expect(error.message).toContain('2 requests per day')
})

test('100 concurrent requests cannot exceed the limit together, and refused ones are not counted', async () => {
  const caller = await customer(7, 1_000)
  const answers = await Promise.all(Array.from({ length: 100 }, () => gateway.chat(caller, hello)))
  expect(answers.filter(({ status }) => status === 200).length).toBe(7)
  expect(answers.filter(({ status }) => status === 429).length).toBe(93)
  const usage = (await (await gateway.get(caller, '/v1/usage')).json()) as { rate_limits: { requests_today: number } }
  expect(usage.rate_limits.requests_today).toBe(7)
})

test('invalid requests are not counted; unknown models and requests without credit are', async () => {
  const caller = await customer(100, 100)
  await gateway.chat(caller, { ...hello, max_tokens: 0 })
  await gateway.chat(caller, {}, { body: '{' })
  expect(limits(await gateway.chat(caller, { ...hello, model: 'unknown' })).remaining).toBe(99)
  expect(limits(await gateway.chat(caller, { ...hello, max_tokens: 8_000, n: 16 })).remaining).toBe(98)
  expect(limits(await gateway.chat(caller, hello)).remaining).toBe(97)
})

test('a customer at the limit does not affect another customer', async () => {
  const [busy, other] = [await customer(1, 10), await customer(1, 10)]
  await gateway.chat(busy, hello)
  expect((await gateway.chat(busy, hello)).status).toBe(429)
  expect((await gateway.chat(other, hello)).status).toBe(200)
})

test('usage reports have a separate limit from chats', async () => {
  const caller = await customer(2, 10)
  for (let read = 0; read < 3; read++) expect((await gateway.get(caller, '/v1/usage/tokens')).status).toBe(200)
  const refused = await gateway.get(caller, '/v1/usage')
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(await readError(refused)).toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
  for (const path of ['/v1/usage/breakdown', '/v1/usage/export'])
    expect((await gateway.get(caller, path)).status).toBe(429)
  expect((await gateway.get(caller, '/v1/models')).status).toBe(200)

  expect((await gateway.chat(caller, hello)).status).toBe(200)
  expect((await gateway.chat(caller, hello)).status).toBe(200)
  expect((await gateway.chat(caller, hello)).status).toBe(429)
  reportsNowMs += 60_000
  const summary = (await (await gateway.get(caller, '/v1/usage')).json()) as { rate_limits: object }
  expect(summary.rate_limits).toMatchObject({
    requests_today: 2,
    remaining_today: 8,
    limit_per_minute: 2,
    limit_per_day: 10,
  })
})

test('a restart keeps the counts of the day and the minute', async () => {
  const caller = await customer(100, 3)
  await gateway.chat(caller, hello)
  await gateway.chat(caller, hello)
  await gateway.close()
  gateway = await start()
  expect(limits(await gateway.chat(caller, { ...hello, max_tokens: 0 }))).toMatchObject({
    remaining: 98,
    'remaining-day': 1,
  })
  expect((await gateway.chat(caller, hello)).status).toBe(200)
  expect(await readError(await gateway.chat(caller, hello))).toMatchObject({
    status: 429,
    code: 'daily_limit_exceeded',
  })
})
