import { beforeAll, describe, expect, test } from 'vitest'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { answer } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const local = useUpstream()
const cloud = useUpstream()
const gateway = useTestApp(() => ({
  yaml: 'reports: { requests_per_minute: 1000 }',
  offers: [
    testOffer(local.baseUrl, { modelId: 'local-model' }),
    testOffer(cloud.baseUrl, { modelId: 'cloud-model', endpoint: { kind: 'cloud' } }),
  ],
}))
beforeAll(() => {
  local.always(answer({ text: 'local' }))
  cloud.always(answer({ text: 'cloud' }))
})

const manager = () => gateway.customer({ key: { scopes: ['manage'] } })
const messages = [{ role: 'user', content: 'Hello' }]
const hosterIds = (count: number) =>
  Array.from({ length: count }, (_, n) => `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`)

async function send(customer: TestCustomer, method: string, path: string, body: object) {
  const headers = { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' }
  const response = await fetch(`${gateway.url}${path}`, { method, headers, body: JSON.stringify(body) })
  await gateway.app.noticeChanges()
  return response
}

async function createKey(customer: TestCustomer, defaults: object) {
  const response = await send(customer, 'POST', '/v1/keys', { name: 'bot', defaults })
  expect(response.status).toBe(200)
  const made = (await response.json()) as { id: string; key: string; defaults: object }
  return { ...made, bot: { customerId: customer.customerId, key: made.key } }
}

const allFields = {
  tier: 'cheapest',
  privacy_mode: true,
  trusted_only: true,
  max_latency_ms: 5_000,
  fallback_models: ['local-model'],
  allow_hosters: hosterIds(2),
  deny_hosters: hosterIds(1),
  max_cost_usd: 0.05,
  on_insufficient: 'clamp',
}

test('the keys endpoints show the defaults of a key', async () => {
  const customer = await manager()
  const { id, bot, defaults } = await createKey(customer, allFields)
  expect(defaults).toEqual(allFields)
  const list = (await (await gateway.get(customer, '/v1/keys')).json()) as { data: object[] }
  expect(list.data).toMatchObject([{ id, defaults: allFields }, { defaults: {} }])
  expect(await (await gateway.get(bot, '/v1/key')).json()).toMatchObject({ id, defaults: allFields })
})

test('a change keeps the fields that it leaves out; null removes a field, or all', async () => {
  const customer = await manager()
  const { id } = await createKey(customer, { tier: 'cheapest', privacy_mode: true, max_latency_ms: null })
  const change = async (body: object) => {
    const changed = (await (await send(customer, 'PATCH', `/v1/keys/${id}`, body)).json()) as { defaults: object }
    return changed.defaults
  }
  expect(await change({ name: 'other' })).toEqual({ tier: 'cheapest', privacy_mode: true })
  expect(await change({ defaults: { tier: null, max_cost_usd: 1 } })).toEqual({ privacy_mode: true, max_cost_usd: 1 })
  expect(await change({ defaults: {} })).toEqual({ privacy_mode: true, max_cost_usd: 1 })
  expect(await change({ defaults: null })).toEqual({})
})

test('every request with the key has its constraints, whatever the body and the headers say', async () => {
  const customer = await manager()
  const { id, bot } = await createKey(customer, { privacy_mode: true })
  const ask = (body: object, headers: Record<string, string> = {}) =>
    gateway.chat(bot, { messages, ...body }, { headers })
  const attempts: [body: object, headers: Record<string, string>][] = [
    [{}, {}],
    [{ privacy_mode: false }, {}],
    [{}, { 'x-switchyard-privacy-mode': 'false' }],
  ]
  for (const [body, headers] of attempts) {
    const error = await readError(await ask({ model: 'cloud-model', ...body }, headers))
    expect(error).toMatchObject({ status: 500, code: 'no_eligible_offer' })
    expect(error.message).toContain('privacy_mode of the API key excluded 1 cloud offer')
  }
  const served = await ask({ model: 'local-model' })
  expect(served.status).toBe(200)
  const receipt = await gateway.get(bot, `/v1/usage/requests/${served.headers.get('x-request-id')}`)
  expect(await receipt.json()).toMatchObject({ policy: { privacy_mode: true, sources: { privacy_mode: 'key' } } })

  // Another key of the customer, and this one after the change, may use the cloud.
  const cloudRequest = { model: 'cloud-model', messages }
  expect((await gateway.chat(customer, cloudRequest)).status).toBe(200)
  await send(customer, 'PATCH', `/v1/keys/${id}`, { defaults: { privacy_mode: null } })
  expect((await gateway.chat(bot, cloudRequest)).status).toBe(200)
})

test('a preference of the key applies when neither the body nor a header sets it', async () => {
  const { bot } = await createKey(await manager(), { privacy_mode: true, fallback_models: ['local-model'] })
  const ask = async (body: object, headers: Record<string, string> = {}) =>
    (await gateway.chat(bot, { model: 'cloud-model', messages, ...body }, { headers })).status
  expect(await ask({})).toBe(200)
  expect(await ask({ fallback_models: [] })).toBe(500)
  expect(await ask({}, { 'x-switchyard-fallback-models': 'unknown' })).toBe(500)
  expect(await ask({ fallback_models: ['local-model'] }, { 'x-switchyard-fallback-models': 'unknown' })).toBe(200)
})

test('the smallest max_cost_usd holds', async () => {
  const { bot } = await createKey(await manager(), { max_cost_usd: 0.001 })
  const response = await gateway.chat(bot, { model: 'local-model', messages, max_tokens: 4_000, max_cost_usd: 1 })
  expect(Number(response.headers.get('x-switchyard-max-tokens'))).toBeLessThan(500)
})

describe('400', () => {
  test.each<[defaults: unknown, param: string, message: RegExp]>([
    ['cheapest', 'defaults', /an object with fields of tier, privacy_mode/],
    [{ tier: 'fast' }, 'defaults.tier', /one of cheapest, balanced, fastest/],
    [{ privacy_mode: 'true' }, 'defaults.privacy_mode', /true or false/],
    [{ deny_hosters: ['acme'] }, 'defaults.deny_hosters[0]', /a hoster UUID/],
    [{ fallback_models: ['a\u202eb'] }, 'defaults.fallback_models[0]', /text direction marks/],
    [{ max_cost_usd: 0 }, 'defaults.max_cost_usd', /an amount of USD/],
    [{ dry_run: true }, 'defaults.dry_run', /"defaults" must be an object with fields of tier, privacy_mode/],
    [{ allow_hosters: hosterIds(256) }, 'defaults', /may have 8192 characters as JSON/],
  ])('%j', async (defaults, param, message) => {
    const customer = await manager()
    const error = await readError(await send(customer, 'POST', '/v1/keys', { name: 'bot', defaults }))
    expect(error).toMatchObject({ status: 400, code: 'invalid_value', param, message: expect.stringMatching(message) })
  })

  test('changes that together exceed the limit', async () => {
    const customer = await manager()
    const { id } = await createKey(customer, { allow_hosters: hosterIds(150) })
    const change = { defaults: { deny_hosters: hosterIds(150) } }
    const error = await readError(await send(customer, 'PATCH', `/v1/keys/${id}`, change))
    expect(error).toMatchObject({ status: 400, param: 'defaults' })
  })
})
