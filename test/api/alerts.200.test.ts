import { Webhook } from 'standardwebhooks'
import { expect, test, vi } from 'vitest'
import { startWebhookReceiver } from '../alerts/webhook-receiver.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { answer } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const receiver = useResource(startWebhookReceiver, server => server.close())
const gateway = useTestApp(() => ({
  yaml: 'alerts: { allow_private_urls: true }',
  offers: [testOffer(upstream.baseUrl, { price: { inputPicoPerToken: 0n, outputPicoPerToken: 1_000_000_000_000n } })],
  timeouts: { alertIntervalMs: 50 },
}))
const customer = useCustomer(gateway, { key: { scopes: ['manage'] } })

async function call(method: string, path: string, body?: object, caller = customer) {
  const response = await fetch(`${gateway.url}${path}`, {
    method,
    headers: { authorization: `Bearer ${caller.key}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: the tests check the shape of each body
  return { status: response.status, body: (await response.json()) as any }
}

test.each([[1e-9], [0.0000005], ['0.0000005'], [999_999_999]])('a threshold of %j is kept exactly', async threshold => {
  const asked = { kind: 'low_balance', threshold_usd: threshold, channel: 'email' }
  const { status, body } = await call('POST', '/v1/alerts', asked)
  expect([status, body.threshold_usd]).toEqual([200, Number(threshold)])
  expect((await call('DELETE', `/v1/alerts/${body.id}`)).status).toBe(200)
})

test('a rule can be created, tested, listed and deleted', async () => {
  const asked = { kind: 'low_balance', threshold_usd: '2.5', channel: 'webhook', target: receiver.url }
  const { status, body: made } = await call('POST', '/v1/alerts', asked)
  expect({ status, made }).toEqual({
    status: 200,
    made: {
      ...asked,
      threshold_usd: 2.5,
      id: expect.any(String),
      object: 'alert',
      created_at: expect.stringMatching(/Z$/),
      secret: expect.stringMatching(/^whsec_/),
    },
  })
  const { secret, ...rule } = made
  expect(await call('GET', '/v1/alerts')).toEqual({ status: 200, body: { object: 'list', data: [rule] } })

  const { body: tested } = await call('POST', `/v1/alerts/${rule.id}/test`)
  expect(tested).toEqual({ id: rule.id, alert_id: expect.any(String) })
  const [webhook] = await receiver.arrived(1)
  const verified = new Webhook(secret).verify(webhook!.body, webhook!.headers as Record<string, string>)
  expect(verified).toMatchObject({ type: 'alert.test', data: { alert_id: tested.alert_id } })

  const deliveries = await vi.waitFor(async () => {
    const { body } = await call('GET', `/v1/alerts/${rule.id}/deliveries`)
    expect(body.data[0].delivered_at).not.toBeNull()
    return body
  }, WAIT_OPTIONS)
  expect(deliveries).toMatchObject({
    object: 'list',
    data: [{ alert_id: tested.alert_id, kind: 'test', attempts: [{ attempt: 1, outcome: 'delivered', status: 204 }] }],
  })

  const removed = await call('DELETE', `/v1/alerts/${rule.id}`)
  expect(removed).toEqual({ status: 200, body: { id: rule.id, object: 'alert', deleted: true } })
  expect((await call('GET', '/v1/alerts')).body.data).toEqual([])
  expect((await call('DELETE', `/v1/alerts/${rule.id}`)).status).toBe(404)
})

test('a key without the scope manage sees only scheme and host of a webhook URL', async () => {
  const owner = await gateway.customer({ key: { scopes: ['manage'] } })
  const plain = await gateway.anotherKey(owner)
  const { url } = receiver
  await call('POST', '/v1/alerts', { kind: 'daily_spend', channel: 'webhook', target: url }, owner)
  await call('POST', '/v1/alerts', { kind: 'daily_spend', channel: 'email' }, owner)
  const targets = async (caller: TestCustomer) =>
    (await call('GET', '/v1/alerts', undefined, caller)).body.data.map((rule: { target: string }) => rule.target)
  const { customer: address } = (await call('GET', '/v1/usage', undefined, owner)).body
  expect(await targets(owner)).toEqual([url, address])
  expect(await targets(plain)).toEqual([new URL(url).origin, address])
})

test("email alerts go to the customer's own address", async () => {
  const { body } = await call('POST', '/v1/alerts', { kind: 'daily_spend', channel: 'email' })
  const { body: usage } = await call('GET', '/v1/usage')
  expect(body).toMatchObject({ target: usage.customer, threshold_usd: null, secret: null })
  const again = { kind: 'daily_spend', channel: 'email', target: usage.customer.toUpperCase(), threshold_usd: null }
  expect((await call('POST', '/v1/alerts', again)).status).toBe(200)
})

test('costs and refusals of requests raise alerts', async () => {
  const spender = await gateway.customer({
    key: { scopes: ['manage'] },
    creditNanos: 20_000_000_000n,
    limits: { requestsPerMinute: 100, requestsPerDay: 100, dailySpendCapNanos: 10_000_000_000n },
  })
  const hooks = await startWebhookReceiver()
  const hook = { channel: 'webhook', target: hooks.url }
  await call('POST', '/v1/alerts', { kind: 'low_balance', threshold_usd: 11.5, ...hook }, spender)
  await call('POST', '/v1/alerts', { kind: 'large_charge', threshold_usd: 1, ...hook }, spender)
  await call('POST', '/v1/alerts', { kind: 'daily_spend', ...hook }, spender)
  const received = (count: number) =>
    hooks
      .arrived(count)
      .then(webhooks => webhooks.map(({ body }) => JSON.parse(body)).sort((a, b) => (a.type < b.type ? -1 : 1)))
  try {
    // A token costs a dollar.
    upstream.respondWith(answer({ usage: { prompt_tokens: 1, completion_tokens: 9, total_tokens: 10 } }))
    const ask = { model: 'test-model', max_tokens: 9, messages: [{ role: 'user', content: 'x' }] }
    const served = await gateway.chat(spender, ask)
    expect({ status: served.status, cost: (await gateway.settled(spender, 1))[0]!.cost_nanos }).toEqual({
      status: 200,
      cost: 9_000_000_000n,
    })
    expect(await received(3)).toMatchObject([
      { type: 'alert.daily_spend', data: { percent: 80, spent_usd: 9, cap_usd: 10 } },
      {
        type: 'alert.large_charge',
        data: { cost_usd: 9, model: 'test-model', request_id: served.headers.get('x-request-id') },
      },
      { type: 'alert.low_balance', data: { balance_usd: 11, threshold_usd: 11.5 } },
    ])
    expect((await gateway.chat(spender, ask)).status).toBe(402)
    expect((await received(4))[1]).toMatchObject({ type: 'alert.daily_spend', data: { percent: 100 } })
  } finally {
    await hooks.close()
  }
})

test('a request refused by a key limit raises an alert', async () => {
  const limit = { limitNanos: 2_000_000_000n, reset: 'daily' as const }
  const limited = await gateway.customer({ creditNanos: 20_000_000_000n, key: { scopes: ['manage'], limit } })
  const hooks = await startWebhookReceiver()
  try {
    await call('POST', '/v1/alerts', { kind: 'key_limit_reached', channel: 'webhook', target: hooks.url }, limited)
    const ask = { model: 'test-model', max_tokens: 9, messages: [{ role: 'user', content: 'x' }] }
    const refused = await gateway.chat(limited, ask)
    expect(await readError(refused)).toMatchObject({ status: 402, code: 'key_spend_limit_reached' })
    const [webhook] = await hooks.arrived(1)
    expect(JSON.parse(webhook!.body)).toMatchObject({
      type: 'alert.key_limit_reached',
      data: { key_name: 'test', limit_usd: 2, spent_usd: 0, reset: 'daily' },
    })
  } finally {
    await hooks.close()
  }
})

test('an alert is delivered again later when its receiver fails', async () => {
  const { body: rule } = await call('POST', '/v1/alerts', {
    kind: 'daily_spend',
    channel: 'webhook',
    target: receiver.url,
  })
  receiver.answerWith(response => response.writeHead(503).end())
  await call('POST', `/v1/alerts/${rule.id}/test`)
  await vi.waitFor(async () => {
    const { rows } = await gateway.database.pool.query(
      'SELECT attempts, locked_at, run_at > now() AS waits FROM graphile_worker._private_jobs',
    )
    expect(rows).toEqual([{ attempts: 1, locked_at: null, waits: true }])
  }, WAIT_OPTIONS)
  const { body } = await call('GET', `/v1/alerts/${rule.id}/deliveries`)
  expect(body.data[0]).toMatchObject({ delivered_at: null, attempts: [{ outcome: 'failed', status: 503 }] })
})

test("another customer's rules can be neither read nor changed", async () => {
  const { body: rule } = await call('POST', '/v1/alerts', { kind: 'key_limit_reached', channel: 'email' })
  const stranger = await gateway.customer({ key: { scopes: ['manage'] } })
  expect((await call('GET', '/v1/alerts', undefined, stranger)).body.data).toEqual([])
  for (const [method, path] of [
    ['DELETE', `/v1/alerts/${rule.id}`],
    ['POST', `/v1/alerts/${rule.id}/test`],
    ['GET', `/v1/alerts/${rule.id}/deliveries`],
  ] as const) {
    const { status, body } = await call(method, path, undefined, stranger)
    expect({ status, code: body.error.code }).toEqual({ status: 404, code: 'not_found' })
  }
  expect((await call('GET', '/v1/alerts')).body.data.map(({ id }: { id: string }) => id)).toContain(rule.id)
})
