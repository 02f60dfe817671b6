import { beforeAll, describe, expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { answer, status, usageOf } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true }',
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'local/model' }),
    testOffer(upstream.baseUrl, { modelId: 'cloud-model', endpoint: { kind: 'cloud' } }),
  ],
}))
/** Has three answers (local, hoster, cloud) of 10 + 5 tokens for 20,000 nano-USD each, and one failure. */
const customer = useCustomer(gateway, { limits: { requestsPerMinute: 100, requestsPerDay: 1_000 } })
const newcomer = useCustomer(gateway, { tier: 'free' })

beforeAll(async () => {
  upstream.always(answer({ usage: usageOf(10, 5) }))
  await gateway.hoster({ baseUrl: `${upstream.baseUrl}/hoster`, models: [{ modelId: 'hosted-model' }] })
  for (const model of ['local/model', 'hosted-model', 'cloud-model']) await chat(model)
  upstream.respondWith(status(500))
  await chat('local/model')
})

const chat = (model: string) => gateway.chat(customer, { model, messages: [{ role: 'user', content: 'Hello' }] })

async function get<Body>(path: string, caller = customer): Promise<Body> {
  const response = await gateway.get(caller, path)
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toContain('application/json')
  expect(response.headers.get('x-request-id')).toBeTruthy()
  return (await response.json()) as Body
}

test('GET /v1/usage reports balance, limits and the last 30 days', async () => {
  const summary = await get<{ customer: string; usage_30d: { avg_latency_ms: number } }>('/v1/usage')
  expect(summary).toEqual({
    customer: expect.stringContaining('@example.com'),
    tier: 'standard',
    credit_balance_usd: 4.99994,
    rate_limits: {
      requests_this_minute: expect.any(Number),
      requests_today: expect.any(Number),
      limit_per_minute: 100,
      limit_per_day: 1_000,
      remaining_this_minute: expect.any(Number),
      remaining_today: expect.any(Number),
    },
    usage_30d: {
      total_requests: 4,
      total_input_tokens: 30,
      total_output_tokens: 15,
      total_cost_microdollars: 60,
      refunded_usd: 0,
      avg_latency_ms: expect.any(Number),
    },
  })
  expect(summary.usage_30d.avg_latency_ms).toBeGreaterThan(0)
})

test('GET /v1/usage of a new customer reports the full credit and no usage', async () => {
  expect(await get('/v1/usage', newcomer)).toMatchObject({
    tier: 'free',
    credit_balance_usd: 5,
    rate_limits: {
      requests_this_minute: 0,
      requests_today: 0,
      limit_per_minute: 20,
      limit_per_day: 1_000,
      remaining_this_minute: 20,
      remaining_today: 1_000,
    },
    usage_30d: {
      total_requests: 0,
      total_input_tokens: 0,
      total_output_tokens: 0,
      total_cost_microdollars: 0,
      avg_latency_ms: 0,
    },
  })
})

interface TokenReport {
  period_days: number
  interval: string
  totals: object
  timeseries: {
    period: string
    requests: number
    local_requests: number
    hoster_requests: number
    cloud_requests: number
  }[]
}

test('GET /v1/usage/tokens reports totals and one bucket per day', async () => {
  const report = await get<TokenReport>('/v1/usage/tokens')
  expect(report).toMatchObject({ period_days: 30, interval: 'day' })
  expect(report.totals).toEqual({
    input_tokens: 30,
    output_tokens: 15,
    total_tokens: 45,
    cost_usd: 0.00006,
    refunded_usd: 0,
    requests: 4,
  })
  expect(report.timeseries.length).toBe(30)
  const used = report.timeseries.filter(({ requests }) => requests > 0)
  expect(used.reduce((sum, bucket) => sum + bucket.requests, 0)).toBe(4)
  expect(Object.keys(report.timeseries[0]!)).toEqual([
    'period',
    'input_tokens',
    'output_tokens',
    'total_tokens',
    'cost_usd',
    'requests',
    'local_requests',
    'hoster_requests',
    'cloud_requests',
    'avg_latency_ms',
  ])
  for (const counter of ['local_requests', 'hoster_requests', 'cloud_requests'] as const) {
    expect(used.reduce((sum, bucket) => sum + bucket[counter], 0)).toBe(1)
  }
  for (const { period } of report.timeseries) expect(period).toMatch(/^\d{4}-\d\d-\d\dT00:00:00\+00:00$/)
})

test.each([
  ['hour', 2, (count: number) => count === 48],
  ['day', 365, (count: number) => count === 365],
  ['week', 15, (count: number) => count === 3 || count === 4],
  ['month', 1, (count: number) => count === 1],
])('GET /v1/usage/tokens by %s for %i days has the same totals', async (interval, days, isRight) => {
  const report = await get<TokenReport>(`/v1/usage/tokens?interval=${interval}&days=${days}`)
  expect(report).toMatchObject({ period_days: days, interval, totals: { requests: 4, cost_usd: 0.00006 } })
  expect(isRight(report.timeseries.length)).toBe(true)
  expect(report.timeseries.reduce((sum, bucket) => sum + bucket.requests, 0)).toBe(4)
})

test('GET /v1/usage/breakdown reports by model and provider, and by day', async () => {
  const report = await get<{ by_model: Record<string, unknown>[]; daily: object[] }>('/v1/usage/breakdown')
  const by = Object.fromEntries(report.by_model.map(row => [`${row.model_id} ${row.provider}`, row]))
  const answered = { requests: 1, input_tokens: 10, output_tokens: 5, total_cost_usd: 0.00002 }
  expect(Object.keys(by).sort()).toEqual([
    'cloud-model cloud',
    'hosted-model hoster',
    'local/model local',
    'local/model none',
  ])
  expect(by['local/model local']).toMatchObject({ ...answered, platform_fee_usd: 0.00002, hoster_earned_usd: 0 })
  expect(by['cloud-model cloud']).toMatchObject({ ...answered, platform_fee_usd: 0.00002, hoster_earned_usd: 0 })
  expect(by['hosted-model hoster']).toMatchObject({
    ...answered,
    platform_fee_usd: 0.000004,
    hoster_earned_usd: 0.000016,
    avg_latency_ms: expect.any(Number),
  })
  expect(by['local/model none']).toMatchObject({ requests: 1, total_cost_usd: 0 })
  expect(report.daily.length).toBe(30)
  expect(Object.keys(report.daily[0]!)).toEqual([
    'date',
    'requests',
    'input_tokens',
    'output_tokens',
    'total_tokens',
    'cached_tokens',
    'cost_usd',
    'platform_fee_usd',
    'hoster_earned_usd',
  ])
})

test('GET /v1/usage/export is CSV with one row per request, oldest first', async () => {
  const response = await gateway.get(customer, '/v1/usage/export?days=2')
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toContain('text/csv')
  expect(response.headers.get('content-disposition')).toMatch(/^attachment; filename="[\w.-]+\.csv"$/)
  const lines = (await response.text()).split('\r\n')
  expect(lines[0]).toBe(
    'timestamp,model,provider,input_tokens,output_tokens,total_tokens,cost_usd,latency_ms,success,request_id,outcome,key_id,key,label,member',
  )
  expect(lines.at(-1)).toBe('')
  const rows = lines.slice(1, -1).map(line => line.split(','))
  expect(rows.map(row => [...row.slice(1, 7), row[8]])).toEqual([
    ['local/model', 'local', '10', '5', '15', '0.00002', 'true'],
    ['hosted-model', 'hoster', '10', '5', '15', '0.00002', 'true'],
    ['cloud-model', 'cloud', '10', '5', '15', '0.00002', 'true'],
    ['local/model', 'none', '0', '0', '0', expect.stringMatching(/^0(\.0+)?$/), 'false'],
  ])
  for (const row of rows) expect(new Date(row[0]!).toISOString()).toBe(row[0])
})

describe('a customer sees only its own usage', () => {
  test.each(['/v1/usage', '/v1/usage/tokens', '/v1/usage/breakdown', '/v1/usage/export'])('%s', async path => {
    const { customerId } = customer
    const text = async (query: string) => (await gateway.get(newcomer, `${path}?${query}`)).text()
    for (const query of [`customer=${customerId}`, `customer_id=${customerId}`, `key=${customer.key}`]) {
      expect(await text(query)).not.toMatch(/local\/model|0\.00006|"requests":4/)
    }
  })
})
