import { beforeAll, describe, expect, test } from 'vitest'
import { suspendHoster } from '../../src/market/marketplace/operate-hoster.ts'
import { startTestApp, testOffer } from '../harness/app.ts'
import { readEventStream } from '../harness/event-stream.ts'
import { answer, type ScriptedUpstream, startScriptedUpstream, status, usageOf } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

// One upstream per place. The text of each answer names its place.
const places = ['local', 'cloud', 'trusted', 'newcomer'] as const
type Place = (typeof places)[number]
const upstreams = {
  local: useUpstream(),
  cloud: useUpstream(),
  trusted: useUpstream(),
  newcomer: useUpstream(),
} satisfies Record<Place, ScriptedUpstream>
const { local, cloud, trusted, newcomer } = upstreams
const hosters = {} as Record<'trusted' | 'newcomer', string>

const usd = (input: number, output: number) => ({
  inputPicoPerToken: BigInt(input * 1_000_000),
  outputPicoPerToken: BigInt(output * 1_000_000),
})

const gateway = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true }',
  offers: [
    testOffer(local.baseUrl, { modelId: 'everywhere', price: usd(1.4, 1.4) }),
    testOffer(cloud.baseUrl, { modelId: 'everywhere', price: usd(1.5, 1.5), endpoint: { kind: 'cloud' } }),
    testOffer(cloud.baseUrl, { modelId: 'hosted', price: usd(9, 9), endpoint: { kind: 'cloud' } }),
    testOffer(cloud.baseUrl, { modelId: 'cloud-only', price: usd(5, 5), endpoint: { kind: 'cloud' } }),
    testOffer(local.baseUrl, { modelId: 'local-only', price: usd(1, 1) }),
    testOffer(local.baseUrl, { modelId: 'expensive-backup', price: usd(100, 100) }),
  ],
}))
const customer = useCustomer(gateway, { tier: 'scale' })

beforeAll(async () => {
  for (const place of places) upstreams[place].always(answer({ text: place, usage: usageOf(10, 5) }))
  const models = (price: ReturnType<typeof usd>) => [
    { modelId: 'everywhere', price, upstreamModel: 'their-name' },
    { modelId: 'hosted', price },
  ]
  hosters.trusted = await gateway.hoster({ baseUrl: trusted.baseUrl, trustScore: 0.81, models: models(usd(1.3, 1.3)) })
  hosters.newcomer = await gateway.hoster({
    baseUrl: newcomer.baseUrl,
    trustScore: 0.8,
    shareBps: 7_500,
    models: models(usd(1, 1)),
  })
})

const hello = { model: 'everywhere', messages: [{ role: 'user', content: 'Hello' }] }

interface Served {
  place: string
  model: string
  provider: string | null
  hoster: string | null
}

/** The server and model that serve this request. Expects the same for JSON and for a stream. */
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

test('tier cheapest chooses the cheapest server', async () => {
  expect(await servedBy({ tier: 'cheapest' })).toEqual({
    place: 'newcomer',
    model: 'everywhere',
    provider: 'hoster',
    hoster: hosters.newcomer,
  })
})

test('tier balanced, tier fastest and no tier choose any server of comparable price except the cloud', async () => {
  for (const tier of ['balanced', 'fastest', null, undefined]) {
    const response = await gateway.chat(customer, { ...hello, tier })
    expect(['local', 'hoster']).toContain(response.headers.get('x-switchyard-provider'))
  }
})

test('tier fastest chooses the server with the lowest measured latency', async () => {
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
    // A new customer per request, since routing prefers the server that served the conversation before.
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
  test('deny_hosters leaves the other servers', async () => {
    expect(await servedBy({ tier: 'cheapest', deny_hosters: [hosters.newcomer] })).toMatchObject({ place: 'trusted' })
    expect(await servedBy({ tier: 'cheapest', deny_hosters: Object.values(hosters) })).toMatchObject({
      place: 'local',
      provider: 'local',
      hoster: null,
    })
  })

  test('allow_hosters allows only these hosters, in any letter case', async () => {
    const body = { model: 'hosted', tier: 'cheapest' }
    expect(await servedBy({ ...body, allow_hosters: [hosters.trusted.toUpperCase()] })).toMatchObject({
      place: 'trusted',
    })
    expect(await servedBy({ ...body, allow_hosters: [] })).toMatchObject({ place: 'cloud' })
  })

  test('a hoster on both lists is denied, and unknown ids are ignored', async () => {
    const unknown = '0192d0c0-0000-7000-8000-000000000000'
    const body = { model: 'hosted', tier: 'cheapest', allow_hosters: Object.values(hosters) }
    expect(await servedBy({ ...body, deny_hosters: [hosters.newcomer, unknown] })).toMatchObject({ place: 'trusted' })
  })
})

describe('trusted_only', () => {
  test('excludes a hoster with a trust score of exactly 0.8', async () => {
    expect(await servedBy({ model: 'hosted', tier: 'cheapest', trusted_only: true })).toMatchObject({
      place: 'trusted',
      hoster: hosters.trusted,
    })
  })

  test('does not exclude local and cloud servers', async () => {
    expect(await servedBy({ model: 'local-only', trusted_only: true })).toMatchObject({ place: 'local' })
    expect(await servedBy({ model: 'cloud-only', trusted_only: true })).toMatchObject({ place: 'cloud' })
  })
})

describe('privacy_mode', () => {
  const privacy = { privacy_mode: true, tier: 'cheapest' }
  const cloudRequests = () => upstreams.cloud.requests.length

  test('never uses the cloud: not as the only server, not as a fallback, not when all others fail', async () => {
    const before = cloudRequests()
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
      expect(cloudRequests()).toBe(before)
      expect((await other.chat(caller, { ...hello, model: 'hosted' })).headers.get('x-switchyard-provider')).toBe(
        'cloud',
      )
    } finally {
      await other.close()
      await own.close()
    }
  })

  test('uses the remaining servers', async () => {
    expect(await servedBy({ ...privacy, model: 'hosted' })).toMatchObject({ place: 'newcomer' })
    expect(await servedBy({ ...privacy, deny_hosters: Object.values(hosters) })).toMatchObject({ place: 'local' })
  })
})

test('max_latency_ms skips slower and unmeasured hosters, and no other servers', async () => {
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

test('fallback_models are tried in order, the answer names the one that served, and the hold covers the most expensive', async () => {
  expect(await servedBy({ model: 'local-only', fallback_models: ['cloud-only'] })).toMatchObject({
    model: 'local-only',
  })
  const body = {
    ...hello,
    model: 'local-only',
    fallback_models: ['unknown', 'cloud-only', 'expensive-backup'],
    max_tokens: 100,
  }
  // 85 tokens of prompt at most, 100 of output, each 100,000 nano-USD at the most expensive candidate.
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

test('auto also chooses the model, and the answer names it', async () => {
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

test('a hoster receives its own name of the model', async () => {
  const sentBefore = upstreams.newcomer.requests.length
  await gateway.chat(customer, { ...hello, tier: 'cheapest' })
  expect(upstreams.newcomer.requests[sentBefore]!.body.model).toBe('their-name')
})

test('a suspended hoster receives no more requests', async () => {
  const extra = await gateway.hoster({ baseUrl: upstreams.trusted.baseUrl, models: [{ modelId: 'only-here' }] })
  expect((await gateway.chat(customer, { ...hello, model: 'only-here' })).status).toBe(200)
  await suspendHoster(gateway.database.pool, extra)
  await gateway.app.noticeChanges()
  expect((await gateway.chat(customer, { ...hello, model: 'only-here' })).status).toBe(404)
})
