import { setTimeout as delay } from 'node:timers/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import { testOffer } from '../harness/app.ts'
import { readError } from '../harness/event-stream.ts'
import { rawRequest } from '../harness/raw-request.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

// The text of each answer names its server.
const local = useUpstream()
const cloud = useUpstream()
const hosted = useUpstream()
const gateway = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true }\nreports: { requests_per_minute: 1000 }',
  offers: [
    testOffer(local.baseUrl, { price: { inputPicoPerToken: 9_000_000n, outputPicoPerToken: 9_000_000n } }),
    testOffer(local.baseUrl, { modelId: 'backup' }),
    testOffer(cloud.baseUrl, { modelId: 'cloud-only', endpoint: { kind: 'cloud' } }),
  ],
}))
const customer = useCustomer(gateway, { tier: 'scale' })
let hosterId: string

beforeAll(async () => {
  for (const [name, upstream] of Object.entries({ local, cloud, hosted })) {
    const reply = answer({ text: name, usage: usageOf(10, 5) })
    // An answer of a quick machine takes less than the 1 ms that `max_latency_ms` allows at least.
    upstream.always(async (...exchange) => {
      await delay(10)
      await reply(...exchange)
    })
  }
  hosterId = await gateway.hoster({ baseUrl: hosted.baseUrl, trustScore: 0.7 })
})

const messages = [{ role: 'user', content: 'Hello' }]
const unknownHoster = '0192d0c0-0000-7000-8000-000000000000'

/** Sends a request through both servers: a query makes it one for node:http. Expects the same kind of answer. */
async function chat(headers: Record<string, string>, body: object = {}): Promise<Response> {
  const send = (query: string) =>
    fetch(`${gateway.url}/v1/chat/completions${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ model: 'test-model', messages, ...body }),
    })
  const [plain, other] = [await send(''), await send('?through=node')]
  expect(other.status).toBe(plain.status)
  await other.arrayBuffer()
  return plain
}

async function servedBy(headers: Record<string, string>, body: object = {}): Promise<string> {
  const response = await chat(headers, body)
  expect(response.status).toBe(200)
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
  return choices[0]!.message.content
}

describe('a header sets what the body leaves open', () => {
  test('x-switchyard-tier, which the body overrides', async () => {
    expect(await servedBy({ 'X-Switchyard-Tier': 'cheapest' })).toBe('hosted')
    // With the random numbers of this gateway, balanced begins with another server than cheapest.
    const balanced = await servedBy({}, { tier: 'balanced' })
    expect(await servedBy({ 'x-switchyard-tier': 'cheapest' }, { tier: 'balanced' })).toBe(balanced)
  })

  test('x-switchyard-fallback-models, which the body overrides', async () => {
    const strict = { privacy_mode: true }
    const headers = { 'x-switchyard-fallback-models': 'unknown, backup' }
    expect(await servedBy(headers, { ...strict, model: 'cloud-only' })).toBe('local')
    const response = await chat(headers, { ...strict, model: 'cloud-only', fallback_models: [] })
    expect(await readError(response)).toMatchObject({ status: 500, code: 'no_eligible_offer' })
  })

  test('x-switchyard-on-insufficient', async () => {
    const poor = await gateway.customer({ creditNanos: 2_000_000n })
    const ask = (headers: Record<string, string>) =>
      gateway.chat(poor, { model: 'backup', messages, max_tokens: 8_000 }, { headers })
    expect((await ask({})).status).toBe(402)
    const clamped = await ask({ 'x-switchyard-on-insufficient': 'clamp' })
    expect(clamped.status).toBe(200)
    expect(Number(clamped.headers.get('x-switchyard-max-tokens'))).toBeGreaterThan(0)
  })

  test('x-switchyard-dry-run', async () => {
    const response = await chat({ 'x-switchyard-dry-run': 'true' }, { stream: true })
    expect(await response.json()).toMatchObject({ object: 'chat.completion.quote' })
  })
})

describe('of a header and the body, the stricter value holds', () => {
  test.each([
    ['the header', { 'x-switchyard-privacy-mode': 'true' }, { privacy_mode: false }, 'privacy_mode of a header'],
    ['the body', { 'x-switchyard-privacy-mode': 'false' }, { privacy_mode: true }, 'privacy_mode excluded'],
  ])('x-switchyard-privacy-mode: %s', async (_, headers, body, why) => {
    const error = await readError(await chat(headers, { ...body, model: 'cloud-only' }))
    expect(error).toMatchObject({ status: 500, code: 'no_eligible_offer' })
    expect(error.message).toContain(why)
  })

  test.each<[string, string]>([
    ['x-switchyard-trusted-only', 'true'],
    ['x-switchyard-max-latency-ms', '1'],
    ['x-switchyard-allow-hosters', unknownHoster],
    ['x-switchyard-deny-hosters', `${unknownHoster},HOSTER`],
  ])('%s: %s excludes the hoster', async (header, value) => {
    const headers = { [header]: value.replace('HOSTER', hosterId.toUpperCase()) }
    expect(await servedBy({}, { tier: 'cheapest' })).toBe('hosted')
    expect(await servedBy(headers, { tier: 'cheapest', allow_hosters: [hosterId], max_latency_ms: null })).toBe('local')
  })

  test('x-switchyard-max-cost-usd', async () => {
    const lowered = await chat(
      { 'x-switchyard-max-cost-usd': '0.001' },
      { model: 'backup', max_cost_usd: 1, max_tokens: 4_000 },
    )
    expect(Number(lowered.headers.get('x-switchyard-max-tokens'))).toBeLessThan(500)
    // How JavaScript writes 0.000000001.
    const error = await readError(await chat({ 'x-switchyard-max-cost-usd': String(1e-9) }, { model: 'backup' }))
    expect(error).toMatchObject({ status: 400, code: 'max_cost_too_low', param: 'max_cost_usd' })
    expect(error.message).toContain('max_cost_usd of a header is 0.000000001')
  })

  test('the receipt names the source', async () => {
    const response = await chat(
      { 'x-switchyard-privacy-mode': 'true', 'x-switchyard-tier': 'cheapest' },
      { trusted_only: true },
    )
    const receipt = await gateway.get(customer, `/v1/usage/requests/${response.headers.get('x-request-id')}`)
    expect(await receipt.json()).toMatchObject({
      policy: {
        tier: 'cheapest',
        privacy_mode: true,
        trusted_only: true,
        sources: { tier: 'header', privacy_mode: 'header' },
      },
    })
  })
})

describe('400', () => {
  test.each<[header: string, value: string, problem: string]>([
    ['x-switchyard-tier', 'fast', 'must be one of cheapest, balanced, fastest; got "fast".'],
    ['x-switchyard-tier', '', 'must be one of cheapest, balanced, fastest; got "".'],
    ['x-switchyard-privacy-mode', 'yes', 'must be true or false; got "yes".'],
    ['x-switchyard-privacy-mode', 'true, false', 'must be true or false'],
    ['x-switchyard-trusted-only', '1', 'must be true or false'],
    ['x-switchyard-max-latency-ms', '1.5', 'must be an integer from 1 to 2147483647'],
    ['x-switchyard-max-latency-ms', '-1', 'must be an integer from 1 to 2147483647'],
    ['x-switchyard-max-latency-ms', '0x10', 'must be an integer from 1 to 2147483647'],
    ['x-switchyard-fallback-models', 'a,,b', 'must be 1 to 16 model ids, separated by commas'],
    ['x-switchyard-allow-hosters', '', 'must be 1 to 256 hoster UUIDs, separated by commas'],
    ['x-switchyard-deny-hosters', 'acme', 'must be 1 to 256 hoster UUIDs, separated by commas; got "acme".'],
    ['x-switchyard-max-cost-usd', '0', 'must be an amount of USD from 0.000000001 to 1000000'],
    ['x-switchyard-max-cost-usd', '1e7', 'must be an amount of USD'],
    ['x-switchyard-max-cost-usd', '$5', 'must be an amount of USD'],
    ['x-switchyard-on-insufficient', 'pay', 'must be one of refuse, clamp'],
    ['x-switchyard-dry-run', 'maybe', 'must be true or false'],
    ['x-switchyard-privacy', 'true', 'is not a header of a request. The headers are x-switchyard-tier, '],
    ['x-switchyard-__proto__', 'true', 'is not a header of a request'],
  ])('%s: %s', async (header, value, problem) => {
    const error = await readError(await chat({ [header]: value }))
    expect(error).toMatchObject({ status: 400, code: 'invalid_header', param: header })
    expect(error.message).toContain(problem)
  })

  test('a list that is too long', async () => {
    const error = await readError(await chat({ 'x-switchyard-deny-hosters': Array(257).fill(unknownHoster).join(',') }))
    expect(error).toMatchObject({ status: 400, code: 'invalid_header', param: 'x-switchyard-deny-hosters' })
  })

  test('a header that is sent twice', async () => {
    const body = JSON.stringify({ model: 'test-model', messages })
    for (const query of ['', '?through=node']) {
      const answered = await rawRequest(
        gateway.url,
        `POST /v1/chat/completions${query} HTTP/1.1\r\nHost: ${new URL(gateway.url).host}\r\nConnection: close\r\nAuthorization: Bearer ${customer.key}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nx-switchyard-privacy-mode: true\r\nX-Switchyard-Privacy-Mode: false\r\n\r\n${body}`,
      )
      expect(answered.status).toBe(400)
      expect(answered.body).toContain('The header x-switchyard-privacy-mode was sent more than once. Send it once.')
    }
  })
})

test('an Idempotency-Key does not match a request with other routing headers', async () => {
  const send = (headers: Record<string, string>) =>
    gateway.chat(customer, { model: 'backup', messages }, { headers: { 'idempotency-key': 'one key', ...headers } })
  const first = await send({ 'x-switchyard-tier': 'cheapest' })
  expect(first.status).toBe(200)
  await first.arrayBuffer()
  const same = await send({ 'x-switchyard-tier': 'cheapest' })
  expect(same.headers.get('idempotent-replayed')).toBe('true')
  const other = await readError(await send({ 'x-switchyard-tier': 'fastest' }))
  expect(other).toMatchObject({ status: 422, code: 'idempotency_key_reused' })
})

test('the OpenAPI document and preflights name the headers at every generation endpoint', async () => {
  const names = ['tier', 'privacy-mode', 'trusted-only', 'max-latency-ms', 'fallback-models', 'allow-hosters']
  names.push('deny-hosters', 'max-cost-usd', 'max-input-usd-per-million', 'max-output-usd-per-million')
  names.push('on-insufficient', 'dry-run', 'label', 'wait-for-credit-ms')
  const headers = names.map(name => `x-switchyard-${name}`)
  const openapi = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as {
    paths: Record<string, { post?: { responses: { 200: { headers: object } }; parameters?: { name: string }[] } }>
  }
  const generation = Object.entries(openapi.paths).filter(
    ([, { post }]) => post !== undefined && 'x-switchyard-provider' in post.responses[200].headers,
  )
  expect(generation.map(([path]) => path)).toContain('/v1/chat/completions')
  for (const [path, { post }] of generation) {
    const named = post!.parameters?.map(({ name }) => name).filter(name => name.startsWith('x-switchyard-'))
    expect({ path, named }).toEqual({ path, named: headers })
    const preflight = await fetch(`${gateway.url}${path}`, { method: 'OPTIONS' })
    expect(preflight.headers.get('access-control-allow-headers')!.split(', ')).toEqual(expect.arrayContaining(headers))
  }
})
