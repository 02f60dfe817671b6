import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Credits, CreditTransactions } from '../../src/api/credits.ts'
import { grantCredit } from '../../src/ledger/accounts/grant-credit.ts'
import { refundRequest } from '../../src/ledger/accounts/refund-request.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { answer, type ScriptedUpstream, startScriptedUpstream, usageOf } from '../harness/scripted-upstream.ts'

let upstream: ScriptedUpstream
let gateway: TestApp
/** 5 USD to begin with, 2 USD more, three answers for 20,000 nano-USD each, one of them refunded by 3,000. */
let customer: TestCustomer
let refundedId: string

beforeAll(async () => {
  upstream = await startScriptedUpstream()
  upstream.always(answer({ usage: usageOf(10, 5) }))
  gateway = await startTestApp({ offers: [testOffer(upstream.baseUrl)] })
  customer = await gateway.customer()
  const { pool } = gateway.database
  const { customerId } = customer
  await grantCredit(pool, { customerId, amountNanos: 2_000_000_000n, ref: 'invoice 7', reason: 'paid by transfer' })
  for (let i = 0; i < 3; i++) await (await chat(customer)).text()
  refundedId = (await gateway.usage(customer))[1]!.request_id
  await refundRequest(pool, { customerId, requestId: refundedId, amountNanos: 3_000n, reason: 'wrong language' })
})

afterAll(async () => {
  await gateway?.close()
  await upstream?.close()
})

const chat = (who: TestCustomer) =>
  gateway.chat(who, { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] })

async function get<Body>(path: string, who = customer): Promise<Body> {
  const response = await gateway.get(who, path)
  expect([path, response.status]).toEqual([path, 200])
  return (await response.json()) as Body
}

test('GET /v1/credits: the balance and how it came about', async () => {
  expect(await get<Credits>('/v1/credits')).toEqual({
    balance_usd: 6.999943,
    granted_usd: 7,
    spent_usd: 0.00006,
    refunded_usd: 0.000003,
    held_usd: 0,
  })
})

test('GET /v1/credits tells what a running request holds', async () => {
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(async (request, response) => {
    await gate.promise
    await answer({ usage: usageOf(10, 5) })(request, response)
  })
  const other = await gateway.customer()
  const asked = upstream.requests.length
  const answered = chat(other)
  await expect.poll(() => upstream.requests.length, { interval: 1 }).toBe(asked + 1)
  const running = await get<Credits>('/v1/credits', other)
  expect(running).toMatchObject({ balance_usd: 5, spent_usd: 0 })
  expect(running.held_usd).toBeGreaterThan(0.00002)
  gate.resolve()
  await (await answered).text()
  expect(await get<Credits>('/v1/credits', other)).toMatchObject({ balance_usd: 4.99998, held_usd: 0 })
})

test('GET /v1/credits/transactions: newest first, together the balance', async () => {
  const { data, next_cursor } = await get<CreditTransactions>('/v1/credits/transactions')
  expect(next_cursor).toBeNull()
  expect(data.map(({ at: _, ...line }) => line).toSorted((a, b) => a.kind.localeCompare(b.kind))).toEqual([
    { kind: 'credit', amount_usd: 2, reason: 'paid by transfer', request_id: null, requests: null },
    { kind: 'refund', amount_usd: 0.000003, reason: 'wrong language', request_id: refundedId, requests: null },
    { kind: 'signup_credit', amount_usd: 5, reason: 'signup credit', request_id: null, requests: null },
    { kind: 'usage', amount_usd: -0.00006, reason: null, request_id: null, requests: 3 },
  ])
  expect(data.map(({ at }) => at)).toEqual(
    data
      .map(({ at }) => at)
      .toSorted()
      .toReversed(),
  )
  expect(data.find(({ kind }) => kind === 'usage')!.at).toMatch(/T00:00:00.000Z$/)
})

test('GET /v1/credits/transactions in pages: each line once, also when new ones arrive in between', async () => {
  const whole = await get<CreditTransactions>('/v1/credits/transactions')
  const lines: CreditTransactions['data'] = []
  let cursor: string | null = ''
  while (cursor !== null) {
    const page: CreditTransactions = await get(
      `/v1/credits/transactions?limit=1${cursor === '' ? '' : `&cursor=${cursor}`}`,
    )
    expect(page.data).toHaveLength(1)
    lines.push(...page.data)
    cursor = page.next_cursor
    const { customerId } = customer
    await grantCredit(gateway.database.pool, { customerId, amountNanos: 1n, ref: `late ${cursor}`, reason: 'late' })
  }
  expect(lines).toEqual(whole.data)
})

test('nobody sees the credit of another, not even with its cursor', async () => {
  const stranger = await gateway.customer({ creditNanos: 0n })
  const { next_cursor } = await get<CreditTransactions>('/v1/credits/transactions?limit=1')
  expect(await get('/v1/credits', stranger)).toEqual({
    balance_usd: 0,
    granted_usd: 0,
    spent_usd: 0,
    refunded_usd: 0,
    held_usd: 0,
  })
  for (const query of ['', `?cursor=${next_cursor}`])
    expect(await get(`/v1/credits/transactions${query}`, stranger)).toEqual({ data: [], next_cursor: null })
})

test('a refund has a column of its own in the reports, and lowers no cost', async () => {
  const summary = await get<{ usage_30d: object }>('/v1/usage')
  expect(summary).toMatchObject({ usage_30d: { total_cost_microdollars: 60, refunded_usd: 0.000003 } })
  const tokens = await get<{ totals: object }>('/v1/usage/tokens?days=2')
  expect(tokens.totals).toMatchObject({ cost_usd: 0.00006, refunded_usd: 0.000003 })
  const csv = await (await gateway.get(customer, '/v1/usage/export?days=2')).text()
  expect(csv.match(/,0\.00002,/g)).toHaveLength(3)
})
