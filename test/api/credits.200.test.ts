import { beforeAll, expect, test } from 'vitest'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import type { Credits, CreditTransactions } from '../../src/wire/api/credits.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
/** Has 5 USD of signup credit, 2 USD more, and three answers of 20,000 nano-USD each, one refunded by 3,000. */
const customer = useCustomer(gateway)
let refundedId: string

beforeAll(async () => {
  upstream.always(answer({ usage: usageOf(10, 5) }))
  const { pool } = gateway.database
  const { customerId } = customer
  await grantCredit(pool, { customerId, amountNanos: 2_000_000_000n, ref: 'invoice 7', reason: 'paid by transfer' })
  for (let i = 0; i < 3; i++) await (await chat(customer)).text()
  refundedId = (await gateway.usage(customer))[1]!.request_id
  await refundRequest(pool, { customerId, requestId: refundedId, amountNanos: 3_000n, reason: 'wrong language' })
})

const chat = (caller: TestCustomer) =>
  gateway.chat(caller, { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] })

async function get<Body>(path: string, caller = customer): Promise<Body> {
  const response = await gateway.get(caller, path)
  expect([path, response.status]).toEqual([path, 200])
  return (await response.json()) as Body
}

test('GET /v1/credits reports the balance and its parts', async () => {
  expect(await get<Credits>('/v1/credits')).toEqual({
    balance_usd: 6.999943,
    granted_usd: 7,
    spent_usd: 0.00006,
    refunded_usd: 0.000003,
    debt_usd: 0,
    held_usd: 0,
  })
})

test('GET /v1/credits reports the hold of a running request', async () => {
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(async (request, response) => {
    await gate.promise
    await answer({ usage: usageOf(10, 5) })(request, response)
  })
  const other = await gateway.customer()
  const sentBefore = upstream.requests.length
  const answered = chat(other)
  await expect.poll(() => upstream.requests.length, { interval: 1 }).toBe(sentBefore + 1)
  const running = await get<Credits>('/v1/credits', other)
  expect(running).toMatchObject({ balance_usd: 5, spent_usd: 0 })
  expect(running.held_usd).toBeGreaterThan(0.00002)
  gate.resolve()
  await (await answered).text()
  expect(await get<Credits>('/v1/credits', other)).toMatchObject({ balance_usd: 4.99998, held_usd: 0 })
})

test('GET /v1/credits/transactions lists the newest first', async () => {
  const { data, next_cursor } = await get<CreditTransactions>('/v1/credits/transactions')
  expect(next_cursor).toBeNull()
  expect(
    data.map(({ at: _, balance_usd: __, ...line }) => line).toSorted((a, b) => a.kind.localeCompare(b.kind)),
  ).toEqual([
    { kind: 'credit', amount_usd: 2, reason: 'paid by transfer', request_id: null, requests: null },
    { kind: 'refund', amount_usd: 0.000003, reason: 'wrong language', request_id: refundedId, requests: null },
    { kind: 'signup_credit', amount_usd: 5, reason: 'signup credit', request_id: null, requests: null },
    { kind: 'usage', amount_usd: -0.00006, reason: null, request_id: null, requests: 3 },
  ])
  expect(data.map(line => line.balance_usd)).toEqual([6.999943, 7.000003, 7, 5])
  expect(data.map(({ at }) => at)).toEqual(
    data
      .map(({ at }) => at)
      .toSorted()
      .toReversed(),
  )
  // Credit comes before its use, and the sum of the day contains all until now.
  expect([data[0]!.kind, data.at(-1)!.kind]).toEqual(['usage', 'signup_credit'])
})

test('the pages of GET /v1/credits/transactions contain each line once, even if new ones are added', async () => {
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
  // The usage of today ends at the time of each report.
  const withoutTime = ({ at, ...line }: CreditTransactions['data'][number]) => ({
    ...line,
    at: line.kind === 'usage' || at,
  })
  expect(lines.map(withoutTime)).toEqual(whole.data.map(withoutTime))
})

test('a customer cannot see the credit of another customer, even with its cursor', async () => {
  const stranger = await gateway.customer({ creditNanos: 0n })
  const { next_cursor } = await get<CreditTransactions>('/v1/credits/transactions?limit=1')
  expect(await get('/v1/credits', stranger)).toEqual({
    balance_usd: 0,
    granted_usd: 0,
    spent_usd: 0,
    refunded_usd: 0,
    debt_usd: 0,
    held_usd: 0,
  })
  for (const query of ['', `?cursor=${next_cursor}`])
    expect(await get(`/v1/credits/transactions${query}`, stranger)).toEqual({ data: [], next_cursor: null })
})

test('a refund is a separate column in the reports and does not lower the cost', async () => {
  const summary = await get<{ usage_30d: object }>('/v1/usage')
  expect(summary).toMatchObject({ usage_30d: { total_cost_microdollars: 60, refunded_usd: 0.000003 } })
  const tokens = await get<{ totals: object }>('/v1/usage/tokens?days=2')
  expect(tokens.totals).toMatchObject({ cost_usd: 0.00006, refunded_usd: 0.000003 })
  const csv = await (await gateway.get(customer, '/v1/usage/export?days=2')).text()
  expect(csv.match(/,0\.00002,/g)).toHaveLength(3)
})
