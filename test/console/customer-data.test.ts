import { expect, test } from 'vitest'
import { grantCredit } from '../../src/money/ledger/accounts/grant-credit.ts'
import {
  type KeyNames,
  keyNames,
  type LatencyReport,
  type LimitsReport,
  latencyReport,
  limitsReport,
  type ModelFacts,
  modelFacts,
  type UsageShares,
  usageShares,
} from '../../src/wire/api/console-data.ts'
import type { KeyReport } from '../../src/wire/api/keys.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { type BrowserClient, signedInMember } from '../harness/browser-client.ts'
import { readError } from '../harness/event-stream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const app = useTestApp(() => ({
  offers: [
    testOffer(upstream.baseUrl),
    { ...testOffer(upstream.baseUrl), offerId: 'test/other', modelId: 'other-model' },
  ],
}))

const chat = (customer: TestCustomer, model = 'test-model') =>
  app
    .chat(customer, { model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 10 })
    .then(response => response.arrayBuffer())

/** Adds free usage rows, a millisecond apart. */
function insertRows(
  { customerId }: TestCustomer,
  { fromMs, count, model, outcome }: { fromMs: number; count: number; model: string; outcome: string },
) {
  return app.database.pool.query(
    `INSERT INTO usage_event (customer_id, request_id, started_at, model_id, provider, input_tokens, output_tokens, usage_source,
       input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, first_token_ms,
       success, outcome)
     SELECT $1, (lpad(to_hex($2::bigint + i), 12, '0') || '70008000000000000000')::uuid, to_timestamp(($2 + i) / 1000.0), $3, 'local', 1, 1,
       'none', 0, 0, 0, 0, 0, 0, i * 10, i, $4 = 'served', $4
     FROM generate_series(1, $5::integer) i`,
    [customerId, fromMs, model, outcome, count],
  )
}

/** The audit would find that the sums lack these rows. */
function deleteRows({ customerId }: TestCustomer) {
  return app.database.pool.query(`DELETE FROM usage_event WHERE customer_id = $1 AND usage_source = 'none'`, [
    customerId,
  ])
}

async function read<T>(browser: BrowserClient, { customerId }: TestCustomer, path: string): Promise<T> {
  const response = await browser.get(`customers/${customerId}/${path}`)
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${text}`)
  return JSON.parse(text) as T
}

test('usage by key, model and provider sums to what was charged', async () => {
  const customer = await app.customer()
  const second = await app.anotherKey(customer, { name: 'second' })
  const { browser } = await signedInMember(app, customer.customerId)
  for (let sent = 0; sent < 3; sent++) await chat(second)
  await chat(customer, 'other-model')
  const rows = await app.settled(customer, 4)
  const cost = Number(rows.reduce((total, row) => total + row.cost_nanos, 0n)) / 1e9

  const byKey = await read<UsageShares>(browser, customer, 'usage/keys?days=7&interval=week')
  expect(usageShares.parse(byKey)).toMatchObject({ by: 'key', totals: { requests: 4, cost_usd: cost }, other: null })
  expect(byKey.data.map(({ name, requests, input_tokens }) => ({ name, requests, input_tokens }))).toEqual([
    { name: 'second', requests: 3, input_tokens: null },
    { name: expect.any(String), requests: 1, input_tokens: null },
  ])

  const byModel = await read<UsageShares>(browser, customer, 'usage/models?days=2&series=1')
  expect(usageShares.parse(byModel)).toMatchObject({
    data: [{ id: 'test-model', requests: 3 }],
    other: { count: 1, requests: 1 },
    totals: { requests: 4, cost_usd: cost, input_tokens: rows.reduce((sum, row) => sum + row.input_tokens, 0) },
  })
  for (const series of [...byModel.data, byModel.other!]) {
    expect(series.timeseries).toHaveLength(2)
    expect(series.timeseries.reduce((sum, point) => sum + point.requests, 0)).toBe(series.requests)
  }
  const byProvider = await read<UsageShares>(browser, customer, 'usage/providers')
  expect(byProvider.data).toMatchObject([{ id: 'local', requests: 4 }])
})

test('a key that was deleted stays in the report', async () => {
  const customer = await app.customer()
  const gone = await app.anotherKey(customer, { name: 'gone' })
  await chat(gone)
  await app.settled(customer, 1)
  const { browser } = await signedInMember(app, customer.customerId)
  const [{ id }] = (await read<{ data: KeyReport[] }>(browser, customer, 'keys')).data.filter(
    ({ name }) => name === 'gone',
  ) as [KeyReport]
  await browser.send('DELETE', `customers/${customer.customerId}/keys/${id}`)
  expect((await read<UsageShares>(browser, customer, 'usage/keys')).data).toMatchObject([
    { id, name: 'gone', is_revoked: true, requests: 1 },
  ])
})

test('the names of the keys are those of the list of keys', async () => {
  const customer = await app.customer()
  const { browser } = await signedInMember(app, customer.customerId)
  const make = async (name: string) =>
    ((await (await browser.post(`customers/${customer.customerId}/keys`, { name })).json()) as KeyReport).id
  await make('kept')
  await browser.send('DELETE', `customers/${customer.customerId}/keys/${await make('deleted')}`)
  const { data: keys } = await read<{ data: KeyReport[] }>(browser, customer, 'keys')
  const { data } = keyNames.parse(await read<KeyNames>(browser, customer, 'key-names'))
  expect(data).toEqual(keys.map(({ id, name, hint, is_playground }) => ({ id, name, hint, is_playground })))
  expect(data.map(({ name }) => name)).toContain('kept')
})

test('latency is of the newest requests, by model, with the share of failures', async () => {
  const customer = await app.customer()
  const { browser } = await signedInMember(app, customer.customerId)
  expect(await read<LatencyReport>(browser, customer, 'latency')).toMatchObject({
    since: null,
    requests: 0,
    failure_share: 0,
    first_token_ms: null,
    models: [],
  })
  const nowMs = Date.parse('2026-11-20T10:00:00Z')
  // Older than the newest 1,000.
  await insertRows(customer, { count: 50, fromMs: nowMs - 100_000, model: 'old', outcome: 'unserved' })
  await insertRows(customer, { count: 900, fromMs: nowMs, model: 'slow', outcome: 'served' })
  await insertRows(customer, { count: 90, fromMs: nowMs + 10_000, model: 'broken', outcome: 'unserved' })
  await insertRows(customer, { count: 10, fromMs: nowMs + 20_000, model: 'broken', outcome: 'client_gone' })
  const report = latencyReport.parse(await read(browser, customer, 'latency'))
  expect(report).toEqual({
    object: 'latency',
    since: '2026-11-20T10:00:00.001Z',
    requests: 1000,
    failed: 90,
    failure_share: 0.09,
    first_token_ms: { p50: 450, p95: 855 },
    total_ms: { p50: 4500, p95: 8550 },
    models: [
      {
        model: 'slow',
        requests: 900,
        failed: 0,
        failure_share: 0,
        first_token_ms: { p50: 450, p95: 855 },
        total_ms: { p50: 4500, p95: 8550 },
      },
      { model: 'broken', requests: 100, failed: 90, failure_share: 0.9, first_token_ms: null, total_ms: null },
    ],
  })
  await deleteRows(customer)
})

test('limits show what is used of each', async () => {
  const customer = await app.customer({
    limits: { requestsPerMinute: 12, requestsPerDay: 100, dailySpendCapNanos: 2_000_000_000n },
  })
  const { browser } = await signedInMember(app, customer.customerId)
  await chat(customer)
  const [row] = await app.settled(customer, 1)
  const report = limitsReport.parse(await read<LimitsReport>(browser, customer, 'limits'))
  expect(report).toMatchObject({
    minute: { used: 1, limit: 12 },
    day: { used: 1, limit: 100 },
    spend: { spent_usd: Number(row!.cost_nanos) / 1e9, limit_usd: 2 },
  })
  expect(report.spend.resets_at).toBe(report.day.resets_at)
})

test('keys show what they spent in the window of their limit, and when they were last used', async () => {
  const customer = await app.customer({
    key: { scopes: ['manage'], limit: { limitNanos: 1_000_000_000n, reset: 'weekly' } },
  })
  await app.anotherKey(customer, { name: 'unused' })
  await chat(customer)
  const [row] = await app.settled(customer, 1)
  const { browser } = await signedInMember(app, customer.customerId)
  const { data } = await read<{ data: KeyReport[] }>(browser, customer, 'keys')
  expect(data.find(({ name }) => name === 'unused')).toMatchObject({
    spent_usd: null,
    limit_resets_at: null,
    last_used_on: null,
  })
  const own = data.find(({ name }) => name !== 'unused')!
  expect(own).toMatchObject({
    spent_usd: Number(row!.cost_nanos) / 1e9,
    limit_resets_at: expect.stringMatching(/T00:00:00.000Z$/),
    last_used_on: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
  })
})

test('the statement has a running balance on every page, for a span, and as CSV', async () => {
  const customer = await app.customer({ creditNanos: 5_000_000_000n })
  const { browser } = await signedInMember(app, customer.customerId)
  const { pool } = app.database
  for (const amount of [1, 2, 3])
    await grantCredit(pool, {
      customerId: customer.customerId,
      amountNanos: BigInt(amount) * 1_000_000_000n,
      ref: `${customer.customerId}-${amount}`,
      reason: '=cmd, "quoted"',
    })
  await chat(customer)
  await app.settled(customer, 1)
  type Line = { kind: string; amount_usd: number; balance_usd: number; at: string }
  type Page = { data: Line[]; next_cursor: string | null }
  const whole = await read<Page>(browser, customer, 'credits/transactions')
  const { balance_usd } = await read<{ balance_usd: number }>(browser, customer, 'credits')
  expect(whole.data[0]).toMatchObject({ kind: 'usage', balance_usd })
  expect(whole.data.slice(1).map(line => line.balance_usd)).toEqual([11, 8, 6, 5])

  const paged: Line[] = []
  for (let cursor: string | null = ''; cursor !== null; ) {
    const page: Page = await read(browser, customer, `credits/transactions?limit=2${cursor && `&cursor=${cursor}`}`)
    paged.push(...page.data)
    cursor = page.next_cursor
  }
  expect(paged.map(line => line.balance_usd)).toEqual(whole.data.map(line => line.balance_usd))

  await pool.query('ALTER TABLE ledger_tx DISABLE TRIGGER append_only')
  await pool.query(`UPDATE ledger_tx SET at = at - interval '10 days' WHERE ref = ANY ($1)`, [
    [`${customer.customerId}-1`, customer.customerId],
  ])
  await pool.query('ALTER TABLE ledger_tx ENABLE TRIGGER append_only')
  const day = (daysAgo: number) => new Date(Date.now() - daysAgo * 86_400_000).toISOString().slice(0, 10)
  const old = await read<Page>(browser, customer, `credits/transactions?to=${day(5)}`)
  expect(old.data.map(line => line.balance_usd)).toEqual([6, 5])
  const recent = await read<Page>(browser, customer, `credits/transactions?from=${day(5)}`)
  expect(recent.data.map(line => line.amount_usd).slice(1)).toEqual([3, 2])
  const wrong = await browser.get(`customers/${customer.customerId}/credits/transactions?from=${day(1)}&to=${day(2)}`)
  expect(await readError(wrong)).toMatchObject({ status: 400, code: 'invalid_value', param: 'from' })

  const csv = await (await browser.get(`customers/${customer.customerId}/credits/statement?from=${day(5)}`)).text()
  const lines = csv.trimEnd().split('\r\n')
  expect(lines[0]).toBe('at,kind,amount_usd,balance_usd,requests,request_id,reason')
  expect(lines[1]).toMatch(/,usage,-0\.\d+,10\.9\d+,1,,$/)
  expect(lines[2]).toMatch(/,credit,3\.00,11\.00,,,"'=cmd, ""quoted"""$/)
  expect(lines).toHaveLength(4)
})

test('activity filters by outcome, and says how far a page searched', async () => {
  const customer = await app.customer()
  const { browser } = await signedInMember(app, customer.customerId)
  await chat(customer)
  await app.settled(customer, 1)
  const list = (query: string) =>
    read<{ data: unknown[]; looked_back_to: string | null; next_cursor: string | null }>(
      browser,
      customer,
      `usage/requests?${query}`,
    )
  expect(await list('outcome=served')).toMatchObject({ data: { length: 1 }, looked_back_to: null })
  expect(await list('outcome=unserved')).toMatchObject({ data: { length: 0 }, looked_back_to: null })
  const startMs = Date.parse('2026-11-01T00:00:00Z')
  await insertRows(customer, { count: 10_500, fromMs: startMs, model: 'm', outcome: 'superseded' })
  const page = await list('outcome=unserved')
  expect(page).toMatchObject({ data: [], looked_back_to: new Date(startMs + 502).toISOString() })
  expect(await list(`outcome=unserved&cursor=${page.next_cursor}`)).toMatchObject({ data: [], looked_back_to: null })
  await deleteRows(customer)
})

test('model facts count the servers of each kind', async () => {
  const customer = await app.customer()
  const { browser } = await signedInMember(app, customer.customerId, 'viewer')
  for (let sent = 0; sent < 5; sent++) await chat(customer)
  const { data } = modelFacts.parse(await read<ModelFacts>(browser, customer, 'model-facts'))
  expect(data.find(({ id }) => id === 'test-model')).toMatchObject({
    is_available: true,
    first_token_ms: expect.any(Number),
    providers: [{ kind: 'local', servers: 1, healthy: 1, in_flight: 0, trust_score: null }],
  })
})

test('a viewer reads no statement', async () => {
  const customer = await app.customer()
  const { browser } = await signedInMember(app, customer.customerId, 'viewer')
  const refused = await browser.get(`customers/${customer.customerId}/credits/statement`)
  expect(await readError(refused)).toMatchObject({ status: 403, code: 'role_not_allowed' })
})
