import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { suspendHoster } from '../../src/supply/hosters/hosters.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { readEventStream } from '../harness/event-stream.ts'
import { answer, type ScriptedUpstream, startScriptedUpstream, status, usageOf } from '../harness/scripted-upstream.ts'

// One upstream for each place: the text of an answer says who gave it.
const places = ['local', 'cloud', 'trusted', 'newcomer'] as const
type Place = (typeof places)[number]
const upstreams = {} as Record<Place, ScriptedUpstream>
const hosters = {} as Record<'trusted' | 'newcomer', string>
let gateway: TestApp
let customer: TestCustomer

const usd = (input: number, output: number) => ({
  inputPicoPerToken: BigInt(input * 1_000_000),
  outputPicoPerToken: BigInt(output * 1_000_000),
})

beforeAll(async () => {
  for (const place of places) {
    upstreams[place] = await startScriptedUpstream()
    upstreams[place].always(answer({ text: place, usage: usageOf(10, 5) }))
  }
  const { local, cloud, trusted, newcomer } = upstreams
  gateway = await startTestApp({
    yaml: 'hosters: { allow_private_urls: true }',
    offers: [
      testOffer(local.baseUrl, { modelId: 'everywhere', price: usd(3, 3) }),
      testOffer(cloud.baseUrl, { modelId: 'everywhere', price: usd(0.1, 0.1), endpoint: { kind: 'cloud' } }),
      testOffer(cloud.baseUrl, { modelId: 'hosted', price: usd(9, 9), endpoint: { kind: 'cloud' } }),
      testOffer(cloud.baseUrl, { modelId: 'cloud-only', price: usd(5, 5), endpoint: { kind: 'cloud' } }),
      testOffer(local.baseUrl, { modelId: 'local-only', price: usd(1, 1) }),
      testOffer(local.baseUrl, { modelId: 'dear-backup', price: usd(100, 100) }),
    ],
  })
  const models = (price: ReturnType<typeof usd>) => [
    { modelId: 'everywhere', price, upstreamModel: 'their-name' },
    { modelId: 'hosted', price },
  ]
  hosters.trusted = await gateway.hoster({ baseUrl: trusted.baseUrl, trustScore: 0.81, models: models(usd(2, 2)) })
  hosters.newcomer = await gateway.hoster({
    baseUrl: newcomer.baseUrl,
    trustScore: 0.8,
    shareBps: 7_500,
    models: models(usd(1, 1)),
  })
  customer = await gateway.customer({ tier: 'scale' })
})

afterAll(async () => {
  await gateway?.close()
  for (const place of places) await upstreams[place]?.close()
})

const hello = { model: 'everywhere', messages: [{ role: 'user', content: 'Hello' }] }

interface Served {
  place: string
  model: string
  provider: string | null
  hoster: string | null
}

/** Who serves this request, whole and as a stream alike. */
async function servedBy(body: object): Promise<Served> {
  const whole = await gateway.chat(customer, { ...hello, ...body })
  expect(whole.status).toBe(200)
  const json = (await whole.json()) as { model: string; choices: { message: { content: string } }[] }
  const served = {
    place: json.choices[0]!.message.content,
    model: json.model,
    provider: whole.headers.get('x-switchyard-provider'),
    hoster: whole.headers.get('x-switchyard-hoster'),
  }
  const streaming = await gateway.chat(customer, { ...hello, ...body, stream: true })
  const stream = await readEventStream(streaming)
  expect(stream).toMatchObject({ text: served.place, done: true })
  expect(streaming.headers.get('x-switchyard-provider')).toBe(served.provider)
  expect(streaming.headers.get('x-switchyard-hoster')).toBe(served.hoster)
  expect(stream.chunks[0]!.model).toBe(served.model)
  return served
}

test('tier cheapest: the cheapest server, clouds only after the others', async () => {
  expect(await servedBy({ tier: 'cheapest' })).toEqual({
    place: 'newcomer',
    model: 'everywhere',
    provider: 'hoster',
    hoster: hosters.newcomer,
  })
})

test('tier balanced, fastest and none: any server but the cloud', async () => {
  for (const tier of ['balanced', 'fastest', null, undefined]) {
    const response = await gateway.chat(customer, { ...hello, tier })
    expect(['local', 'hoster']).toContain(response.headers.get('x-switchyard-provider'))
  }
})

test('tier fastest: the one that was measured to be fast', async () => {
  const [slow, fast] = [await startScriptedUpstream(), await startScriptedUpstream()]
  let passedMs = 0
  slow.always((request, response) => {
    passedMs += 1_000
    return answer({ text: 'slow' })(request, response)
  })
  fast.always(answer({ text: 'fast' }))
  const other = await startTestApp({
    clock: { epochMs: () => Date.now(), monotonicMs: () => passedMs },
    offers: [
      testOffer(slow.baseUrl, { price: usd(1, 1), features: new Set(['images']) }),
      testOffer(fast.baseUrl, { price: usd(2, 2) }),
    ],
  })
  try {
    // A customer for each request, because a conversation likes to stay where it was.
    const ask = async (body: object) =>
      other.chat(await other.customer(), { ...hello, model: 'test-model', ...body }).then(response => response.text())
    for (let count = 0; count < 5; count++) {
      expect(await ask({ tier: 'cheapest' })).toContain('slow')
      expect(await ask({ tools: [{ type: 'function', function: { name: 'f' } }] })).toContain('fast')
    }
    expect(await ask({ tier: 'fastest' })).toContain('fast')
    expect(await ask({ tier: 'cheapest' })).toContain('slow')
  } finally {
    await other.close()
    await Promise.all([slow.close(), fast.close()])
  }
})

describe('allow_hosters and deny_hosters', () => {
  test('deny_hosters leaves the others', async () => {
    expect(await servedBy({ tier: 'cheapest', deny_hosters: [hosters.newcomer] })).toMatchObject({ place: 'trusted' })
    expect(await servedBy({ tier: 'cheapest', deny_hosters: Object.values(hosters) })).toMatchObject({
      place: 'local',
      provider: 'local',
      hoster: null,
    })
  })

  test('allow_hosters leaves those among the hosters, in any letter case', async () => {
    const body = { model: 'hosted', tier: 'cheapest' }
    expect(await servedBy({ ...body, allow_hosters: [hosters.trusted.toUpperCase()] })).toMatchObject({
      place: 'trusted',
    })
    expect(await servedBy({ ...body, allow_hosters: [] })).toMatchObject({ place: 'cloud' })
  })

  test('who is on both lists is denied; unknown ids are no error', async () => {
    const unknown = '0192d0c0-0000-7000-8000-000000000000'
    const body = { model: 'hosted', tier: 'cheapest', allow_hosters: Object.values(hosters) }
    expect(await servedBy({ ...body, deny_hosters: [hosters.newcomer, unknown] })).toMatchObject({ place: 'trusted' })
  })
})

describe('trusted_only', () => {
  test('0.8 is not above 0.8', async () => {
    expect(await servedBy({ model: 'hosted', tier: 'cheapest', trusted_only: true })).toMatchObject({
      place: 'trusted',
      hoster: hosters.trusted,
    })
  })

  test('says nothing about local and cloud servers', async () => {
    expect(await servedBy({ model: 'local-only', trusted_only: true })).toMatchObject({ place: 'local' })
    expect(await servedBy({ model: 'cloud-only', trusted_only: true })).toMatchObject({ place: 'cloud' })
  })
})

describe('privacy_mode', () => {
  const privacy = { privacy_mode: true, tier: 'cheapest' }
  const clouded = () => upstreams.cloud.requests.length

  test('never reaches the cloud: not when it is the only one, not as a fallback, not when all others fail', async () => {
    const before = clouded()
    expect((await gateway.chat(customer, { ...hello, ...privacy, model: 'cloud-only' })).status).toBe(500)
    expect((await gateway.chat(customer, { ...hello, ...privacy, model: 'auto' })).status).toBe(200)
    const own = await startScriptedUpstream()
    own.always(status(500))
    const cloud = upstreams.cloud.baseUrl
    const other = await startTestApp({
      offers: [
        testOffer(own.baseUrl, { modelId: 'hosted' }),
        testOffer(cloud, { modelId: 'hosted', endpoint: { kind: 'cloud' } }),
        testOffer(cloud, { modelId: 'cloud-only', endpoint: { kind: 'cloud' } }),
      ],
    })
    try {
      const caller = await other.customer()
      for (let count = 0; count < 8; count++) {
        const body = { ...hello, ...privacy, model: 'hosted', fallback_models: ['cloud-only', 'auto'] }
        const response = await other.chat(caller, { ...body, stream: count % 2 === 0 })
        expect(response.status).toBe(500)
        await response.text()
      }
      expect(clouded()).toBe(before)
      expect((await other.chat(caller, { ...hello, model: 'hosted' })).headers.get('x-switchyard-provider')).toBe(
        'cloud',
      )
    } finally {
      await other.close()
      await own.close()
    }
  })

  test('takes what is left', async () => {
    expect(await servedBy({ ...privacy, model: 'hosted' })).toMatchObject({ place: 'newcomer' })
    expect(await servedBy({ ...privacy, deny_hosters: Object.values(hosters) })).toMatchObject({ place: 'local' })
  })
})

test('max_latency_ms skips hosters that are slower or not measured, and says nothing about other servers', async () => {
  const hoster = await startScriptedUpstream()
  hoster.always(answer({ text: 'hoster' }))
  const other = await startTestApp({
    yaml: 'hosters: { allow_private_urls: true }',
    offers: [testOffer(upstreams.local.baseUrl, { price: usd(50, 50) })],
  })
  try {
    await other.hoster({ baseUrl: hoster.baseUrl })
    const caller = await other.customer()
    const provider = async (body: object) =>
      (await other.chat(caller, { ...hello, model: 'test-model', tier: 'cheapest', ...body })).headers.get(
        'x-switchyard-provider',
      )
    expect(await provider({ max_latency_ms: 600_000 })).toBe('local')
    for (let count = 0; count < 5; count++) expect(await provider({})).toBe('hoster')
    expect(await provider({ max_latency_ms: 600_000 })).toBe('hoster')
    hoster.respondWith(answer({ delayMs: 40 }))
    expect(await provider({})).toBe('hoster')
    expect(await provider({ max_latency_ms: 10 })).toBe('local')
    expect(await provider({ max_latency_ms: null })).toBe('hoster')
  } finally {
    await other.close()
    await hoster.close()
  }
})

test('fallback_models: tried in order, the answer names who served, and the hold covers the dearest', async () => {
  expect(await servedBy({ model: 'local-only', fallback_models: ['cloud-only'] })).toMatchObject({
    model: 'local-only',
  })
  const body = {
    ...hello,
    model: 'local-only',
    fallback_models: ['unknown', 'cloud-only', 'dear-backup'],
    max_tokens: 100,
  }
  // 85 tokens of prompt at most, 100 of output, each 100,000 nano-USD at the dearest candidate.
  const poor = await gateway.customer({ creditNanos: 185n * 100_000n - 1n })
  expect((await gateway.chat(poor, body)).status).toBe(402)
  const rich = await gateway.customer({ creditNanos: 185n * 100_000n })
  upstreams.local.respondWith(status(500))
  const response = await gateway.chat(rich, body)
  expect(await response.json()).toMatchObject({ model: 'cloud-only' })
  expect(await gateway.usage(rich)).toMatchObject([
    { model_id: 'cloud-only', hold_nanos: 18_500_000n, cost_nanos: 75_000n, provider: 'cloud' },
  ])
})

test('auto chooses a model too, and the answer names it', async () => {
  expect(await servedBy({ model: 'auto', tier: 'cheapest' })).toMatchObject({ place: 'newcomer' })
  const { model } = await servedBy({ model: 'auto', tier: 'cheapest', deny_hosters: Object.values(hosters) })
  expect(model).toBe('local-only')
  expect(await servedBy({ model: 'cloud-only', fallback_models: ['auto'] })).toMatchObject({ model: 'cloud-only' })
})

test('a hoster earns its share and the platform keeps the rest, exact to the nano-USD', async () => {
  const fresh = await gateway.customer()
  const body = { ...hello, allow_hosters: [hosters.newcomer], tier: 'cheapest' }
  upstreams.newcomer.respondWith(answer({ usage: usageOf(7, 4) }))
  expect((await gateway.chat(fresh, body)).status).toBe(200)
  expect(await gateway.usage(fresh)).toMatchObject([
    {
      provider: 'hoster',
      hoster_id: hosters.newcomer,
      cost_nanos: 11_000n,
      hoster_share_nanos: 8_250n,
      fee_nanos: 2_750n,
    },
  ])
  const breakdown = (await (await gateway.get(fresh, '/v1/usage/breakdown')).json()) as { by_model: object[] }
  expect(breakdown.by_model).toMatchObject([
    { provider: 'hoster', total_cost_usd: 0.000011, platform_fee_usd: 0.00000275, hoster_earned_usd: 0.00000825 },
  ])
})

test('a hoster is asked for the model under its own name', async () => {
  const asked = upstreams.newcomer.requests.length
  await gateway.chat(customer, { ...hello, tier: 'cheapest' })
  expect(upstreams.newcomer.requests[asked]!.body.model).toBe('their-name')
})

test('a hoster that is suspended gets no more requests', async () => {
  const extra = await gateway.hoster({ baseUrl: upstreams.trusted.baseUrl, models: [{ modelId: 'only-here' }] })
  expect((await gateway.chat(customer, { ...hello, model: 'only-here' })).status).toBe(200)
  await suspendHoster(gateway.database.pool, extra)
  await gateway.app.noticeChanges()
  expect((await gateway.chat(customer, { ...hello, model: 'only-here' })).status).toBe(404)
})
