import { beforeAll, expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { sumPlatformDays } from '../../src/operator/platform-days.ts'
import type { LatencyReport } from '../../src/wire/api/console-data.ts'
import type { OperatorUsage, UsageDimension } from '../../src/wire/api/operator/usage.ts'
import { testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInOperator } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp(() => ({ offers: [testOffer(upstream.baseUrl)] }))
let operator: BrowserClient
let customers: string[]
beforeAll(async () => {
  operator = (await signedInOperator(app)).browser
  customers = []
  for (let n = 1; n <= 3; n++) {
    const customer = await app.customer({ key: { name: `key ${n}` } })
    customers.push(customer.customerId)
    const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 }
    for (let sent = 0; sent < n; sent++) await (await app.chat(customer, chat)).arrayBuffer()
    await app.settled(customer, n)
  }
  await transaction(app.database.pool, sql => sumPlatformDays(sql, Date.now()))
})
const usage = async (query: string): Promise<OperatorUsage> => {
  const response = await operator.get(`operator/usage?${query}`)
  expect(response.status).toBe(200)
  return (await response.json()) as OperatorUsage
}
const exact = async (where = 'true') => {
  const { rows } = await app.database.pool.query<{ usd: number; requests: number; tokens: number }>(
    `SELECT sum(cost_nanos)::float8 / 1e9 AS usd, count(*)::int AS requests, sum(output_tokens)::int AS tokens FROM usage_event WHERE ${where}`,
  )
  return rows[0]!
}

test.each(['provider', 'server', 'model', 'customer', 'key'] as UsageDimension[])(
  'by %s adds up to every charge',
  async by => {
    const { usd, requests, tokens } = await exact()
    const report = await usage(`by=${by}`)
    expect(report.total).toMatchObject({
      charged_usd: usd,
      requests,
      output_tokens: by === 'key' || by === 'server' ? null : tokens,
    })
    expect(report.groups.reduce((sum, group) => sum + group.requests, 0)).toBe(requests)
    expect(report.other).toEqual({ groups: 0, requests: 0, charged_usd: 0 })
    expect(report.days).toMatchObject([{ requests, charged_usd: usd }])
    const csv = await (await operator.get(`operator/usage/export?by=${by}`)).text()
    const lines = csv.trimEnd().split('\r\n').slice(1)
    expect(lines).toHaveLength(report.groups.length)
    expect(lines.reduce((sum, line) => sum + Number(line.split(',')[4]), 0)).toBe(requests)
  },
)

async function csvOf(query: string): Promise<Record<string, string>[]> {
  const text = await (await operator.get(`operator/usage/export?${query}`)).text()
  const [columns = [], ...lines] = text
    .trimEnd()
    .split('\r\n')
    .map(line => line.split(','))
  return lines.map(line => Object.fromEntries(line.map((value, index) => [columns[index]!, value])))
}

test('customers and keys come with their names, the highest charges first, and can be filtered', async () => {
  const byCustomer = await usage('by=customer')
  expect(byCustomer.groups.map(({ id }) => id)).toEqual(customers.toReversed())
  expect(byCustomer.groups[0]!.name).toMatch(/@example\.com$/)
  const byKey = await usage(`by=key&customer=${customers[1]}`)
  expect(byKey.groups).toMatchObject([{ name: 'key 2', customer_id: customers[1], requests: 2 }])
  const byModel = await usage(`by=model&customer=${customers[2]}&provider=local`)
  expect(byModel.groups).toMatchObject([{ id: 'test-model', requests: 3 }])
  expect(byModel.total.charged_usd).toBe((await exact(`customer_id = '${customers[2]}'`)).usd)
  expect(await usage('by=provider&provider=cloud')).toMatchObject({ groups: [], days: [], total: { requests: 0 } })
  expect(await usage('until=2020-01-31')).toMatchObject({ from: '2020-01-02', groups: [], total: { charged_usd: 0 } })
})

test.each([
  ['from=2026-02-30', 'from'],
  ['from=2024-01-01&until=2025-01-01', 'from'],
  ['from=2026-02-02&until=2026-02-01', 'from'],
  ['by=address', 'by'],
  ['by=server&customer=00000000-0000-0000-0000-000000000000', 'customer'],
  ['customer=ada', 'customer'],
  ['by=key&model=x', 'model'],
  ['by=key&provider=%00', 'provider'],
])('%s is refused', async (query, param) => {
  expect(await readError(await operator.get(`operator/usage?${query}`))).toMatchObject({ status: 400, param })
})

test('sums of the past follow charges that are settled late', async () => {
  const { pool } = app.database
  await pool.query(
    `INSERT INTO usage_day (customer_id, day, model_id, provider, node_shard, requests, successes, input_tokens, output_tokens,
       cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum)
     SELECT $1, (now() AT TIME ZONE 'UTC')::date - 20, 'late-model', 'hoster', 1, 4, 3, 10, 20, 1000, 800, 200, 5`,
    [customers[0]],
  )
  const ofLate = async () => (await usage('by=model')).groups.find(({ id }) => id === 'late-model')
  await transaction(pool, sql => sumPlatformDays(sql, Date.now()))
  expect(await ofLate()).toBeUndefined()
  await transaction(pool, sql => sumPlatformDays(sql, Date.now(), true))
  expect(await ofLate()).toMatchObject({ requests: 4, failed: 1, charged_usd: 0.000001, revenue_usd: 0.0000002 })
  await pool.query("DELETE FROM usage_day WHERE model_id = 'late-model'")
  await transaction(pool, sql => sumPlatformDays(sql, Date.now(), true))
  expect(await ofLate()).toBeUndefined()
})

test('the accounts of audits are no top customers, and stay in the sums', async () => {
  const { pool } = app.database
  const latency = async () => (await (await operator.get('operator/latency')).json()) as LatencyReport
  expect(await latency()).toMatchObject({ requests: 6, failed: 0, total_ms: { p50: expect.any(Number) } })
  await pool.query(
    'INSERT INTO house_customer (customer_id, key_id) SELECT customer_id, key_id FROM api_key WHERE customer_id = $1',
    [customers[2]],
  )
  const { groups, other, total } = await usage('by=customer')
  expect(groups.map(({ id }) => id)).toEqual([customers[1], customers[0]])
  expect(other).toMatchObject({ groups: 1, requests: 3 })
  expect(total.requests).toBe(6)
  expect(await latency()).toMatchObject({ requests: 3 })
  await pool.query('DELETE FROM house_customer')
})

test('revenue and margin are without refunds and audits, and what audits paid to hosters is a cost', async () => {
  const { pool } = app.database
  await transaction(pool, sql => sumPlatformDays(sql, Date.now()))
  const first = await usage('by=customer')
  const before = first.total
  const { rows: oldest } = await pool.query<{ customer: string; request: string; nanos: string }>(
    `SELECT customer_id AS customer, request_id AS request, cost_nanos::text AS nanos FROM usage_event
      WHERE customer_id <> ALL (SELECT customer_id FROM house_customer) ORDER BY request_id LIMIT 1`,
  )
  const { customer, request, nanos } = oldest[0]!
  await pool.query("SELECT refund_request($1, $2, NULL, 'broken')", [customer, request])
  await transaction(pool, sql => sumPlatformDays(sql, Date.now()))
  const refunded = await usage('by=customer')
  // All of a local answer is a fee.
  expect(refunded.total.revenue_usd).toBeCloseTo(before.revenue_usd! - Number(nanos) / 1e9, 9)
  expect(refunded.total.margin_usd).toBeCloseTo(before.margin_usd! - Number(nanos) / 1e9, 9)
  expect(refunded.total.charged_usd).toBe(before.charged_usd)
  expect(refunded.days.at(-1)!.revenue_usd).toBe(refunded.total.revenue_usd)
  const marginOf = ({ groups }: OperatorUsage, id: string) => groups.find(group => group.id === id)!.margin_usd!
  expect(marginOf(refunded, customer)).toBeCloseTo(marginOf(first, customer) - Number(nanos) / 1e9, 9)
  const other = customers.find(id => id !== customer)!
  expect(marginOf(refunded, other)).toBe(marginOf(first, other))

  const { rows: days } = await pool.query<{ cost: number }>(
    `UPDATE usage_day SET hoster_share_nanos = cost_nanos * 9 / 10, fee_nanos = cost_nanos - cost_nanos * 9 / 10
      WHERE customer_id = $1 RETURNING cost_nanos::float8 AS cost`,
    [customers[2]],
  )
  const cost = days.reduce((sum, row) => sum + row.cost, 0) / 1e9
  await pool.query(
    'INSERT INTO house_customer (customer_id, key_id) SELECT customer_id, key_id FROM api_key WHERE customer_id = $1',
    [customers[2]],
  )
  await transaction(pool, sql => sumPlatformDays(sql, Date.now()))
  const audited = (await usage('by=customer')).total
  expect(audited.revenue_usd).toBeCloseTo(refunded.total.revenue_usd! - cost, 9)
  expect(audited.upstream_cost_usd).toBeCloseTo(refunded.total.upstream_cost_usd! + cost * 0.9, 6)
  // Each customer has the same figures in the file as on the page, and those of all have the same sums.
  const byCustomer = await usage('by=customer')
  const rows = await csvOf('by=customer')
  for (const { id, revenue_usd, margin_usd } of byCustomer.groups) {
    const row = rows.find(each => each.id === id)!
    expect([Number(row.revenue_usd), Number(row.margin_usd)]).toEqual([revenue_usd, margin_usd])
  }
  for (const name of ['revenue_usd', 'upstream_cost_usd', 'margin_usd'] as const)
    expect(rows.reduce((sum, row) => sum + Number(row[name]), 0)).toBeCloseTo(audited[name]!, 9)
  await pool.query('DELETE FROM house_customer')
  await pool.query('UPDATE usage_day SET hoster_share_nanos = 0, fee_nanos = cost_nanos WHERE customer_id = $1', [
    customers[2],
  ])
  await transaction(pool, sql => sumPlatformDays(sql, Date.now()))
})

test('sums of models and days have the mean time of the answers', async () => {
  const { rows } = await app.database.pool.query<{ mean: number }>(
    'SELECT avg(latency_ms)::float8 AS mean FROM usage_event WHERE success',
  )
  const { total, days } = await usage('by=model')
  expect(total.mean_latency_ms).toBeCloseTo(rows[0]!.mean, 3)
  expect(days.map(day => day.mean_latency_ms)).toEqual([total.mean_latency_ms])
  expect((await usage('by=key')).total.mean_latency_ms).toBeNull()
})

test('a margin leaves out the revenue of clouds without a known cost, and a refund of it', async () => {
  const { pool } = app.database
  const ofClouds = async () => (await usage('by=model&provider=cloud')).total
  const [customer] = customers
  const addDay = (model: string, cost: number, upstreamCost: number, costed: number) =>
    pool.query(
      `INSERT INTO usage_day (customer_id, day, model_id, provider, node_shard, requests, successes, input_tokens, output_tokens,
         cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum, upstream_cost_nanos, costed_nanos)
       SELECT $1, (now() AT TIME ZONE 'UTC')::date, $2, 'cloud', 1, 1, 1, 10, 20, $3, 0, $3, 5, $4, $5`,
      [customer, model, cost, upstreamCost, costed],
    )
  await addDay('priceless', 3000, 0, 0)
  await transaction(pool, sql => sumPlatformDays(sql, Date.now()))
  const unknown = { revenue_usd: 0.000003, margin_usd: null, unknown_cost_usd: 0.000003 }
  expect(await ofClouds()).toMatchObject(unknown)
  expect(await usage('by=model')).toMatchObject({
    groups: expect.arrayContaining([expect.objectContaining({ id: 'priceless', ...unknown })]),
  })
  const csv = await csvOf('by=model')
  expect(csv.find(({ id }) => id === 'priceless')).toMatchObject({ revenue_usd: '0.000003', margin_usd: '' })
  await addDay('priced', 5000, 1000, 5000)
  await transaction(pool, sql => sumPlatformDays(sql, Date.now()))
  expect(await ofClouds()).toMatchObject({ revenue_usd: 0.000008, margin_usd: 0.000004, unknown_cost_usd: 0.000003 })

  const before = (await usage('by=customer')).total
  const { rows } = await pool.query<{ request: string; fee: number }>(
    `UPDATE usage_event SET provider = 'cloud', upstream_cost_nanos = NULL
      WHERE customer_id = $1 AND request_id NOT IN (SELECT request_id FROM refund)
      RETURNING request_id AS request, fee_nanos::float8 / 1e9 AS fee`,
    [customers[1]],
  )
  const { request, fee } = rows[0]!
  await pool.query("SELECT refund_request($1, $2, NULL, 'broken')", [customers[1], request])
  const { total } = await usage('by=customer')
  expect(total.revenue_usd).toBeCloseTo(before.revenue_usd! - fee, 9)
  expect(total.unknown_cost_usd).toBeCloseTo(before.unknown_cost_usd! - fee, 9)
  expect(total.margin_usd).toBeCloseTo(before.margin_usd!, 9)
  await pool.query("DELETE FROM usage_day WHERE provider = 'cloud'")
  await pool.query("UPDATE usage_event SET provider = 'local'")
  await transaction(pool, sql => sumPlatformDays(sql, Date.now()))
})
