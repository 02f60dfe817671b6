import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const offers = () => [testOffer(upstream.baseUrl)]
const journal = useTestApp(() => ({ offers: offers(), yaml: 'settlement: journal' }))
const commit = useTestApp(() => ({ offers: offers(), yaml: 'settlement: commit' }))

/** What an answer costs, nano-USD: 10 tokens at 1 USD per million, and 5 at 2 USD. */
const COST_NANOS = 20_000

/** Each reads the number of requests, or the sum of their costs in nano-USD, from one report. */
const reports: readonly [path: string, read: (body: string, keyId: string) => { requests?: number; nanos?: number }][] =
  [
    [
      '/v1/usage',
      body => {
        const { usage_30d, rate_limits } = JSON.parse(body)
        expect(rate_limits.requests_today).toBeGreaterThanOrEqual(usage_30d.total_requests)
        return { requests: usage_30d.total_requests, nanos: usage_30d.total_cost_microdollars * 1e3 }
      },
    ],
    [
      '/v1/usage/tokens',
      body => {
        const { totals } = JSON.parse(body)
        return { requests: totals.requests, nanos: totals.cost_usd * 1e9 }
      },
    ],
    [
      '/v1/usage/breakdown',
      body => {
        const { by_model } = JSON.parse(body)
        return { requests: by_model[0]?.requests ?? 0, nanos: (by_model[0]?.total_cost_usd ?? 0) * 1e9 }
      },
    ],
    ['/v1/usage/export', body => ({ requests: body.trim().split('\n').length - 1 })],
    ['/v1/usage/requests?limit=100', body => ({ requests: JSON.parse(body).data.length })],
    ['/v1/credits', body => ({ nanos: JSON.parse(body).spent_usd * 1e9 })],
    [
      '/v1/credits/transactions',
      body => {
        const line = JSON.parse(body).data.find(({ kind }: { kind: string }) => kind === 'usage')
        return { requests: line?.requests ?? 0, nanos: -(line?.amount_usd ?? 0) * 1e9 }
      },
    ],
    ['/v1/key', body => ({ nanos: JSON.parse(body).usage.total_usd * 1e9 })],
    [
      '/v1/keys',
      (body, keyId) => {
        const key = JSON.parse(body).data.find(({ id }: { id: string }) => id === keyId)
        return { nanos: key.usage.total_usd * 1e9 }
      },
    ],
  ]

test.each([
  ['journal', journal],
  ['commit', commit],
] as const)('with settlement %s, each report right after an answer contains it', async (_, gateway) => {
  upstream.always(answer({ usage: usageOf(10, 5) }))
  const customer = await gateway.customer({ key: { scopes: ['manage'] } })
  const keyId = await keyIdOf(gateway, customer)
  for (let sent = 1; sent <= 4 * reports.length; sent++) {
    await (await gateway.chat(customer, chat({ stream: sent % 2 === 0 }))).text()
    const [path, read] = reports[sent % reports.length]!
    const { requests = sent, nanos = sent * COST_NANOS } = read(await (await gateway.get(customer, path)).text(), keyId)
    expect([path, requests, Math.round(nanos)]).toEqual([path, sent, sent * COST_NANOS])
  }
})

test('the receipt of a request exists when its answer has ended', async () => {
  upstream.always(answer({ usage: usageOf(10, 5) }))
  const customer = await journal.customer()
  for (let sent = 1; sent <= 10; sent++) {
    const answered = await journal.chat(customer, chat({ stream: sent % 2 === 0 }))
    await answered.text()
    const receipt = await journal.get(customer, `/v1/usage/requests/${answered.headers.get('x-request-id')}`)
    expect(receipt.status).toBe(200)
    await receipt.text()
  }
})

test('the change of a key reports what it has spent in the answer before', async () => {
  upstream.always(answer({ usage: usageOf(10, 5) }))
  const customer = await journal.customer({ key: { scopes: ['manage'] } })
  const keyId = await keyIdOf(journal, customer)
  for (let sent = 1; sent <= 5; sent++) {
    await (await journal.chat(customer, chat())).text()
    const response = await fetch(`${journal.url}/v1/keys/${keyId}`, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ name: `after ${sent}` }),
    })
    expect(response.status).toBe(200)
    const { usage } = (await response.json()) as { usage: { total_usd: number } }
    expect(Math.round(usage.total_usd * 1e9)).toBe(sent * COST_NANOS)
  }
})

test('a report does not wait for charges that PostgreSQL cannot commit', async () => {
  const customer = await journal.customer()
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(async (request, response) => {
    await gate.promise
    await answer({ usage: usageOf(10, 5) })(request, response)
  })
  const sentBefore = upstream.requests.length
  const answered = journal.chat(customer, chat())
  await expect.poll(() => upstream.requests.length, { interval: 1 }).toBe(sentBefore + 1)
  await transaction(journal.database.pool, async sql => {
    await sql.query('SELECT FROM balance WHERE customer_id = $1 FOR UPDATE', [customer.customerId])
    gate.resolve()
    expect((await answered).status).toBe(200)
    expect(await spent(customer)).toBe(0)
  })
  await expect.poll(() => spent(customer)).toBe(COST_NANOS)
})

const chat = (more: object = {}) => ({ model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], ...more })

async function keyIdOf(gateway: TestApp, customer: TestCustomer): Promise<string> {
  return ((await (await gateway.get(customer, '/v1/key')).json()) as { id: string }).id
}

async function spent(customer: TestCustomer): Promise<number> {
  const response = await journal.get(customer, '/v1/credits')
  expect(response.status).toBe(200)
  const { spent_usd } = (await response.json()) as { spent_usd: number }
  return Math.round(spent_usd * 1e9)
}
