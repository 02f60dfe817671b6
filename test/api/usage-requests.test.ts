import { beforeAll, expect, test } from 'vitest'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import { type RequestPage, type RequestReceipt, requestPage, requestReceipt } from '../../src/wire/api/activity.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { readError, readUntil } from '../harness/event-stream.ts'
import { answer, stall, status, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const broken = useUpstream()
const gateway = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true }\nreports: { requests_per_minute: 1000 }',
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'local-model', endpoint: { endpointId: 'gpu-1' } }),
    testOffer(upstream.baseUrl, { modelId: 'mixed', endpoint: { endpointId: 'cloud-1', kind: 'cloud' } }),
    testOffer(broken.baseUrl, { modelId: 'mixed', endpoint: { endpointId: 'gpu-2' } }),
  ],
}))
let hosterId: string

beforeAll(async () => {
  upstream.always(answer({ text: 'A secret answer', usage: usageOf(10, 5) }))
  broken.always(status(500))
  hosterId = await gateway.hoster({ baseUrl: `${upstream.baseUrl}/hoster`, models: [{ modelId: 'hosted' }] })
})

const prompt = { messages: [{ role: 'user', content: 'A secret question' }] }

async function ask(customer: TestCustomer, body: object): Promise<string> {
  const response = await gateway.chat(customer, { ...prompt, ...body })
  await response.text()
  return response.headers.get('x-request-id')!
}

async function receiptOf(customer: TestCustomer, id: string): Promise<RequestReceipt> {
  const response = await gateway.get(customer, `/v1/usage/requests/${id}`)
  expect(response.status).toBe(200)
  const text = await response.text()
  expect(text).not.toContain('secret')
  const receipt = JSON.parse(text) as RequestReceipt
  expect(requestReceipt.parse(receipt)).toEqual(receipt)
  const entries = receipt.ledger?.entries ?? []
  expect(entries.reduce((sum, { amount_usd }) => sum + Math.round(amount_usd * 1e9), 0)).toBe(0)
  return receipt
}

test('the list contains every request, newest first, in pages', async () => {
  const customer = await gateway.customer()
  const ids: string[] = []
  for (const model of ['local-model', 'hosted', 'mixed']) ids.unshift(await ask(customer, { model }))
  const read = async (query: string) => {
    const response = await gateway.get(customer, `/v1/usage/requests?${query}`)
    expect(response.status).toBe(200)
    const page = (await response.json()) as RequestPage
    expect(requestPage.parse(page)).toEqual(page)
    return page
  }
  const first = await read('limit=2')
  expect(first).toMatchObject({ object: 'list', has_more: true, data: [{ id: ids[0] }, { id: ids[1] }] })
  const second = await read(`limit=2&cursor=${first.next_cursor}`)
  expect(second).toMatchObject({ has_more: false, next_cursor: null, data: [{ id: ids[2] }] })
  expect(second.data[0]).toEqual({
    id: ids[2],
    started_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
    model: 'local-model',
    provider: 'local',
    hoster_id: null,
    key_id: expect.any(String),
    label: null,
    input_tokens: 10,
    output_tokens: 5,
    total_tokens: 15,
    cached_tokens: 0,
    cost_usd: 0.00002,
    latency_ms: expect.any(Number),
    first_token_ms: expect.any(Number),
    success: true,
    outcome: 'served',
    finish_reason: 'stop',
  })
  expect((await read('provider=hoster')).data).toMatchObject([{ id: ids[1], hoster_id: hosterId }])
})

test('a request has the label of its header or its key, in the list, as a filter and on its receipt', async () => {
  const customer = await gateway.customer({ key: { label: 'nightly' } })
  const unnamed = await ask(customer, { model: 'local-model' })
  const response = await gateway.chat(
    customer,
    { model: 'local-model', messages: [{ role: 'user', content: 'Hi' }] },
    { headers: { 'x-switchyard-label': 'project/a' } },
  )
  await response.text()
  const named = response.headers.get('x-request-id')!
  const list = async (query: string) =>
    ((await (await gateway.get(customer, `/v1/usage/requests?${query}`)).json()) as RequestPage).data.map(
      ({ id, label }) => [id, label],
    )
  expect(await list('')).toEqual([
    [named, 'project/a'],
    [unnamed, 'nightly'],
  ])
  expect(await list('label=nightly')).toEqual([[unnamed, 'nightly']])
  expect(await list('label=project/a')).toEqual([[named, 'project/a']])
  expect(await list('label=other')).toEqual([])
  expect((await receiptOf(customer, named)).label).toBe('project/a')
  expect(await readError(await gateway.get(customer, '/v1/usage/requests?label=(none)'))).toMatchObject({
    status: 400,
    param: 'label',
  })
})

test('the receipt of an answer from the only server', async () => {
  const customer = await gateway.customer()
  const id = await ask(customer, { model: 'local-model', max_tokens: 50 })
  const [row] = await gateway.usage(customer)
  const receipt = await receiptOf(customer, id)
  // The id is also accepted as in the body of the answer, and in upper case.
  for (const other of [`chatcmpl-${id}`, id.toUpperCase()]) expect(await receiptOf(customer, other)).toEqual(receipt)
  expect(receipt).toMatchObject({
    object: 'usage.receipt',
    id,
    key: { name: 'test', hint: expect.stringMatching(/^sk-sy-/) },
    model: 'local-model',
    requested_model: 'local-model',
    success: true,
    outcome: 'served',
    finish_reason: 'stop',
    client_disconnected: false,
    served_by: { provider: 'local', endpoint: 'gpu-1', hoster_id: null, hoster_name: null },
    price: { version: null, input_usd_per_million: 1, output_usd_per_million: 2 },
    tokens: {
      source: 'upstream',
      billed: { input: 10, output: 5 },
      counted: { input: null, output: null },
      reported: { input: 10, output: 5 },
    },
    hold_usd: Number(row!.hold_nanos) / 1e9,
    cost_usd: 0.00002,
    platform_fee_usd: 0.00002,
    hoster_share_usd: 0,
    written_off_usd: 0,
    policy: {
      tier: 'balanced',
      privacy_mode: false,
      trusted_only: false,
      max_latency_ms: null,
      fallback_models: [],
      allow_hosters: null,
      deny_hosters: [],
    },
    attempts: [{ model: 'local-model', endpoint: 'gpu-1', outcome: 'answered', elapsed_ms: expect.any(Number) }],
    candidates: [{ model: 'local-model', endpoint: 'gpu-1', status: 'answered', reason: null, rank: 1 }],
    candidates_left_out: 0,
  })
  expect(receipt.ledger!.entries).toEqual([
    { account_kind: 'customer', account_id: customer.customerId, amount_usd: -0.00002 },
    { account_kind: 'platform_revenue', account_id: null, amount_usd: 0.00002 },
  ])
  const { rows } = await gateway.database.pool.query('SELECT routing FROM usage_event WHERE request_id = $1', [id])
  expect(rows).toEqual([{ routing: null }])
})

test('the receipt of a hoster answer has name, price version, both token counts and the share', async () => {
  const customer = await gateway.customer()
  upstream.respondWith(answer({ text: 'one two three', usage: usageOf(10, 5_000) }))
  const receipt = await receiptOf(customer, await ask(customer, { model: 'hosted' }))
  expect(receipt).toMatchObject({
    served_by: { provider: 'hoster', hoster_id: hosterId, hoster_name: 'hoster-1' },
    price: { version: 1 },
    tokens: { source: 'gateway', billed: { output: 3 }, counted: { output: 3 }, reported: { output: 5_000 } },
    attempts: [{ provider: 'hoster', hoster_id: hosterId, hoster_name: 'hoster-1' }],
  })
  expect(receipt.tokens.counted.input).toBeGreaterThan(0)
  const [row] = await gateway.usage(customer)
  expect(receipt.hoster_share_usd).toBe(Number(row!.hoster_share_nanos) / 1e9)
  expect(receipt.ledger!.entries).toContainEqual({
    account_kind: 'hoster_payable',
    account_id: hosterId,
    amount_usd: receipt.hoster_share_usd,
  })
})

test('a refund is on the receipt with its own entries', async () => {
  const customer = await gateway.customer()
  const requestId = await ask(customer, { model: 'hosted' })
  expect((await receiptOf(customer, requestId)).refunds).toEqual([])
  const order = { customerId: customer.customerId, requestId, amountNanos: 5_000n, reason: 'cut off' }
  await refundRequest(gateway.database.pool, order)
  const { cost_usd, refunds } = await receiptOf(customer, requestId)
  expect(cost_usd).toBeGreaterThan(0.000005)
  expect(refunds).toEqual([
    {
      transaction: expect.stringMatching(/^\d+$/),
      at: expect.any(String),
      reason: 'cut off',
      amount_usd: 0.000005,
      entries: [
        { account_kind: 'customer', account_id: customer.customerId, amount_usd: 0.000005 },
        { account_kind: 'hoster_payable', account_id: hosterId, amount_usd: -0.000004 },
        { account_kind: 'platform_revenue', account_id: null, amount_usd: -0.000001 },
      ],
    },
  ])
})

test('the receipt of a failover lists the attempts, the candidates and the requested tier', async () => {
  const customer = await gateway.customer()
  const receipt = await receiptOf(customer, await ask(customer, { model: 'mixed', tier: 'cheapest' }))
  expect(receipt).toMatchObject({
    served_by: { provider: 'cloud', endpoint: 'cloud-1' },
    policy: { tier: 'cheapest' },
    attempts: [
      { endpoint: 'gpu-2', outcome: 'server_error' },
      { endpoint: 'cloud-1', outcome: 'answered' },
    ],
    candidates: [
      { endpoint: 'gpu-2', status: 'failed', reason: 'server_error', rank: 1 },
      { endpoint: 'cloud-1', status: 'answered', reason: null, rank: 2 },
    ],
  })
  expect(receipt.candidates[0]!.expected_cost_usd).toBeGreaterThan(0)
})

test('the receipt lists excluded and untried candidates with the reason', async () => {
  const customer = await gateway.customer()
  const denied = await receiptOf(
    customer,
    await ask(customer, {
      model: 'local-model',
      fallback_models: ['hosted', 'mixed'],
      privacy_mode: true,
      deny_hosters: [hosterId],
    }),
  )
  expect(denied).toMatchObject({
    requested_model: 'local-model',
    policy: { privacy_mode: true, fallback_models: ['hosted', 'mixed'], deny_hosters: [hosterId] },
    candidates: [
      { endpoint: 'gpu-1', status: 'answered', rank: 1 },
      { endpoint: 'gpu-2', model: 'mixed', status: 'not_tried', reason: 'later_model', rank: 2 },
      { provider: 'hoster', hoster_id: hosterId, hoster_name: 'hoster-1', status: 'excluded', reason: 'deny_hosters' },
      { provider: 'cloud', endpoint: 'cloud-1', status: 'excluded', reason: 'privacy_mode', rank: null },
    ],
  })
  expect(denied.candidates).toHaveLength(4)
})

test('failed and abandoned requests have receipts too', async () => {
  const customer = await gateway.customer()
  const failed = await receiptOf(customer, await ask(customer, { model: 'mixed', privacy_mode: true }))
  expect(failed).toMatchObject({
    success: false,
    outcome: 'unserved',
    served_by: null,
    cost_usd: 0,
    ledger: null,
    tokens: { source: 'none', billed: { input: 0, output: 0 }, counted: { input: null, output: null } },
    candidates: [
      { endpoint: 'gpu-2', status: 'failed' },
      { endpoint: 'cloud-1', status: 'excluded' },
    ],
  })

  const leaving = new AbortController()
  upstream.respondWith(stall({ pieces: ['one', ' two'] }))
  const response = await gateway.chat(
    customer,
    { ...prompt, model: 'local-model', stream: true },
    {
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
      signal: leaving.signal,
    },
  )
  const id = response.headers.get('x-request-id')!
  await readUntil(response.body!.getReader(), ' two')
  leaving.abort()
  await gateway.settled(customer, 2)
  expect(await receiptOf(customer, id)).toMatchObject({
    outcome: 'client_gone',
    client_disconnected: true,
    finish_reason: null,
    tokens: { source: 'gateway' },
  })
})

test.each(['', 'x', 'not-a-uuid', '00000000-0000-7000-8000-000000000001', '%00', 'a/b'])(
  'the unknown request id %j is 404',
  async id => {
    const customer = await gateway.customer()
    const error = await readError(await gateway.get(customer, `/v1/usage/requests/${id}`))
    expect(error.status).toBe(404)
    expect(error).toMatchObject({ code: 'request_not_found', type: 'invalid_request_error' })
  },
)

test('a request of another customer is 404, in any letter case', async () => {
  const [owner, stranger] = [await gateway.customer(), await gateway.customer()]
  const id = await ask(owner, { model: 'local-model' })
  for (const spelled of [id, id.toUpperCase()]) {
    expect((await gateway.get(owner, `/v1/usage/requests/${spelled}`)).status).toBe(200)
    const refused = await readError(await gateway.get(stranger, `/v1/usage/requests/${spelled}`))
    expect(refused).toMatchObject({ status: 404, code: 'request_not_found' })
  }
})

test.each([
  ['limit', '0'],
  ['limit', '1001'],
  ['limit', '1e2'],
  ['limit', ''],
  ['cursor', 'x'],
  ['cursor', ''],
  ['model', ''],
  ['model', '%00'],
  ['key', 'mine'],
  ['provider', 'openai'],
  ['success', 'yes'],
  ['from', 'yesterday'],
  ['from', '2026-11-21T09:30:00'],
  ['from', '1969-12-31'],
  ['from', '2026-02-30'],
  ['from', '2026-11-31'],
  ['to', '2026-11-31'],
  ['to', '2026-11-31T09:30:00Z'],
  ['to', '2026-13-01'],
  ['to', ''],
])('%s=%s is refused by name', async (param, value) => {
  const customer = await gateway.customer()
  const error = await readError(await gateway.get(customer, `/v1/usage/requests?${param}=${value}`))
  expect(error).toMatchObject({ status: 400, type: 'invalid_request_error', code: 'invalid_value', param })
  expect(error.message).toMatch(new RegExp(`^${param} must`))
  const twice = await readError(await gateway.get(customer, `/v1/usage/requests?${param}=1&${param}=2`))
  expect(twice).toMatchObject({ status: 400, param })
})

test('a period that ends before it begins is refused', async () => {
  const customer = await gateway.customer()
  const error = await readError(await gateway.get(customer, '/v1/usage/requests?from=2026-11-21&to=2026-11-21'))
  expect(error).toMatchObject({ status: 400, code: 'invalid_value', param: 'from' })
})
