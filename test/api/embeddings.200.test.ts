import { describe, expect, test } from 'vitest'
import type { Feature } from '../../src/base/domain/chat-job.ts'
import { standardQuirks } from '../../src/base/domain/endpoint-defaults.ts'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { startTestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { base64Of, embeddings, scriptedVector } from '../harness/scripted-embeddings.ts'
import { type Behaviour, stall, status } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const other = useUpstream()
const hosted = useUpstream()

const price = { inputPicoPerToken: 1_000_000n, outputPicoPerToken: 0n }
const features = new Set<Feature>(['embeddings', 'dimensions'])
const floatOnly = { ...standardQuirks, base64Embeddings: false }
const gateway = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true }',
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'vectors', price, features, contextTokens: 512 }),
    testOffer(other.baseUrl, {
      modelId: 'vectors',
      price: { ...price, inputPicoPerToken: 2_000_000n },
      features: new Set(['embeddings']),
      contextTokens: 8_192,
    }),
    testOffer(upstream.baseUrl, {
      modelId: 'float-only',
      price,
      features,
      endpoint: { endpointId: 'float-only', dialect: floatOnly },
    }),
    ...wrongAnswers.map((_, index) =>
      testOffer(upstream.baseUrl, {
        modelId: `wrong-${index}`,
        price,
        features,
        endpoint: { endpointId: `wrong-${index}` },
      }),
    ),
  ],
}))

const embed = (customer: TestCustomer, body: object, headers: Record<string, string> = {}) =>
  fetch(`${gateway.url}/v1/embeddings`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })

// biome-ignore lint/suspicious/noExplicitAny: an answer of any status
async function read(response: Response): Promise<any> {
  return await response.json()
}

/** Vectors of wrong answers for two inputs and two dimensions. The customer gets none of them and pays nothing. */
const wrongAnswers: readonly (readonly [name: string, behaviour: Behaviour])[] = [
  ['no data', status(200, { object: 'list', usage: { prompt_tokens: 3 } })],
  ['an error', status(200, { error: { message: 'out of memory' } })],
  ['a completion', status(200, { choices: [{ index: 0, message: { role: 'assistant', content: 'Hi' } }] })],
  ['no vectors', embeddings({ change: () => [] })],
  ['too few vectors', embeddings({ change: ([first]) => [first] })],
  ['too many vectors', embeddings({ change: data => [...data, { ...data[0]!, index: 2 }] })],
  ['an index twice', embeddings({ change: data => data.map(item => ({ ...item, index: 0 })) })],
  ['a wrong index', embeddings({ change: data => data.map(item => ({ ...item, index: item.index + 1 })) })],
  ['a broken index', embeddings({ change: data => data.map(item => ({ ...item, index: 0.5 })) })],
  ['a vector without numbers', embeddings({ change: data => data.map(item => ({ ...item, embedding: [] })) })],
  ['a missing vector', embeddings({ change: ([first]) => [first, { index: 1 }] })],
  ['a vector of another length', embeddings({ change: ([a, b]) => [a, { ...b, embedding: [1, 2, 3] }] })],
  ['the wrong length', embeddings({ change: data => data.map(item => ({ ...item, embedding: [1, 2, 3] })) })],
  ['null instead of a number', embeddings({ change: ([a, b]) => [a, { ...b, embedding: [1, null] }] })],
  ['a number above float32', embeddings({ change: ([a, b]) => [a, { ...b, embedding: [1, 1e39] }] })],
  ['NaN in base64', embeddings({ change: ([a, b]) => [a, { ...b, embedding: base64Of([1, Number.NaN]) }] })],
  ['infinity in base64', embeddings({ change: ([a, b]) => [a, { ...b, embedding: base64Of([1, Infinity]) }] })],
  ['truncated base64', embeddings({ change: ([a, b]) => [a, { ...b, embedding: base64Of([1, 2]).slice(0, -2) }] })],
  ['base64 of half a number', embeddings({ change: ([a, b]) => [a, { ...b, embedding: 'AAAAAAAA' }] })],
  ['text instead of base64', embeddings({ change: ([a, b]) => [a, { ...b, embedding: 'a vector' }] })],
  ['vectors within vectors', embeddings({ change: data => data.map(item => ({ ...item, embedding: [[1, 2]] })) })],
  ['NaN in JSON', status(200, '{"data":[{"index":0,"embedding":[NaN,1]},{"index":1,"embedding":[1,2]}]}')],
  ['a cut answer', status(200, '{"data":[{"index":0,"embedding":[1,2]},{"index":1,"embed')],
  [
    'a huge answer',
    status(200, `{"data":[{"index":0,"embedding":[${'0.1234567890123456789012,'.repeat(100_000)}1]}]}`),
  ],
]

describe('encodings', () => {
  test.each([
    ['base64', 'base64'],
    ['base64', 'float'],
    ['float', 'base64'],
    ['float', 'float'],
  ] as const)('a client that asks for %s gets it from a server that sends %s', async (asked, sent) => {
    const customer = await gateway.customer()
    upstream.respondWith(embeddings({ form: sent }))
    const body = await read(await embed(customer, { model: 'vectors', input: ['a', 'b'], encoding_format: asked }))
    const expected = [0, 1].map(index => {
      const vector = scriptedVector(index)
      return { object: 'embedding', index, embedding: asked === 'base64' ? base64Of(vector) : vector }
    })
    expect(body).toEqual({
      object: 'list',
      data: expected,
      model: 'vectors',
      usage: { prompt_tokens: 6, total_tokens: 6, cost_usd: 0.000006 },
    })
  })

  test.each([
    ['vectors', 'base64', 'base64'],
    ['vectors', 'float', 'float'],
    ['vectors', undefined, undefined],
    ['float-only', 'base64', undefined],
  ])('a server of %s is asked for %s as %s', async (model, asked, sent) => {
    const customer = await gateway.customer()
    upstream.respondWith(embeddings())
    expect((await embed(customer, { model, input: 'a', encoding_format: asked })).status).toBe(200)
    expect(upstream.requests.at(-1)).toMatchObject({ path: '/v1/embeddings', body: { model: `upstream-${model}` } })
    expect(upstream.requests.at(-1)!.body.encoding_format).toBe(sent)
  })
})

describe('inputs', () => {
  test.each<[string, unknown, number]>([
    ['a text', 'a ferry', 1],
    ['texts', ['a ferry', 'a ship'], 2],
    ['token ids', [1, 2, 3], 1],
    ['lists of token ids', [[1, 2], [3]], 2],
    ['as many texts as allowed', Array.from({ length: 2_048 }, () => 'x'), 2_048],
  ])('%s', async (_name, input, count) => {
    const customer = await gateway.customer()
    upstream.respondWith(embeddings())
    const body = await read(await embed(customer, { model: 'vectors', input }))
    expect(body.data).toHaveLength(count)
    expect(upstream.requests.at(-1)!.body.input).toEqual(input)
  })

  test('lists with 300,000 token ids in all', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(embeddings({ promptTokens: 300_000 }))
    const input = Array.from({ length: 1_000 }, () => Array.from({ length: 300 }, (_, id) => id))
    const { usage } = await read(await embed(customer, { model: 'vectors', input }))
    expect(usage).toEqual({ prompt_tokens: 300_000, total_tokens: 300_000, cost_usd: 0.3 })
  })

  test('a batch may exceed the context of a server, but none of its texts', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(embeddings())
    const long = 'word '.repeat(1_000)
    await embed(customer, { model: 'vectors', input: Array.from({ length: 20 }, () => 'word '.repeat(100)) })
    expect((upstream.requests.at(-1)!.body.input as string[]).length).toBe(20)
    other.respondWith(embeddings())
    const before = upstream.requests.length
    const response = await embed(customer, { model: 'vectors', input: ['a', long] })
    expect(response.status).toBe(200)
    expect(upstream.requests).toHaveLength(before)
  })

  test('vectors without an index, or in another order, are put in the order of the inputs', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(
      embeddings({ change: data => data.toReversed() }),
      embeddings({ change: data => data.map(({ index: _, ...item }) => item) }),
    )
    for (let time = 0; time < 2; time++) {
      const { data } = await read(await embed(customer, { model: 'vectors', input: ['a', 'b', 'c'] }))
      expect(data).toMatchObject([0, 1, 2].map(index => ({ index, embedding: scriptedVector(index) })))
    }
  })

  test('dimensions are passed on to servers that declare them', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(status(500, 'broken'))
    const before = other.requests.length
    const failed = await embed(customer, { model: 'vectors', input: 'a', dimensions: 2 })
    expect([failed.status, other.requests.length - before]).toEqual([500, 0])
    upstream.respondWith(embeddings())
    const { data } = await read(await embed(customer, { model: 'vectors', input: 'a', dimensions: 2 }))
    expect(data).toMatchObject([{ embedding: scriptedVector(0, 2) }])
    expect(upstream.requests.at(-1)!.body.dimensions).toBe(2)
  })
})

describe('billing', () => {
  test('the reported input tokens are charged, and the request is in the reports', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(embeddings({ promptTokens: 7 }))
    const response = await embed(customer, { model: 'vectors', input: ['a ferry on the lake', 'a ship on the sea'] })
    expect((await read(response)).usage).toEqual({ prompt_tokens: 7, total_tokens: 7, cost_usd: 0.000007 })
    expect(response.headers.get('x-switchyard-cost-usd')).toBe('0.000007')
    expect(response.headers.get('x-switchyard-provider')).toBe('local')
    expect(await gateway.usage(customer)).toMatchObject([
      { model_id: 'vectors', input_tokens: 7, output_tokens: 0, cost_nanos: 7_000n, usage_source: 'upstream' },
    ])
    const id = response.headers.get('x-request-id')
    const receipt = await read(await gateway.get(customer, `/v1/usage/requests/${id}`))
    expect(receipt).toMatchObject({ id, model: 'vectors', outcome: 'served', cost_usd: 0.000007 })
    const activity = await read(await gateway.get(customer, '/v1/usage/requests'))
    expect(JSON.stringify(activity)).toContain('vectors')
  })

  test.each([
    ['0', 0],
    ['nothing', null],
  ])('a server that reports %s is billed by the count of the gateway', async (_name, promptTokens) => {
    const customer = await gateway.customer()
    upstream.respondWith(embeddings({ promptTokens }))
    const texts = ['a ferry on the lake', 'a ship on the sea']
    const { usage } = await read(await embed(customer, { model: 'vectors', input: texts }))
    expect(usage.prompt_tokens).toBe(countTokens(texts.join('\n')) + 4)
    expect(await gateway.usage(customer)).toMatchObject([{ usage_source: 'gateway', outcome: 'served' }])
  })

  test('token ids are never billed above their number', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(embeddings({ promptTokens: 90 }), embeddings({ promptTokens: 0 }))
    for (let time = 0; time < 2; time++) {
      const { usage } = await read(await embed(customer, { model: 'vectors', input: [[1, 2, 3], [4]] }))
      expect(usage.prompt_tokens).toBe(4)
    }
  })

  test('the report of a hoster is bounded by the count of the gateway', async () => {
    const models = [{ modelId: 'hosted', features: ['embeddings'] as const, price }]
    await gateway.hoster({ baseUrl: hosted.baseUrl, models })
    const customer = await gateway.customer()
    const text = 'a ferry crosses the lake at six'
    const counted = countTokens(text) + 2
    for (const [reported, billed] of [
      [1_000, counted],
      [counted, counted],
      [2, 2],
    ] as const) {
      hosted.respondWith(embeddings({ promptTokens: reported }))
      const { usage } = await read(await embed(customer, { model: 'hosted', input: text }))
      expect([reported, usage.prompt_tokens]).toEqual([reported, billed])
    }
  })

  test('only the input is held', async () => {
    const customer = await gateway.customer({ creditNanos: 66_000n })
    upstream.respondWith(embeddings({ promptTokens: 1 }))
    const response = await embed(customer, { model: 'vectors', input: 'a' })
    expect(response.status).toBe(200)
    expect((await gateway.usage(customer))[0]!.hold_nanos).toBe(66_000n)
  })

  test.each(wrongAnswers.map(([name], index) => [name, index] as const))(
    'a server that answers with %s is not paid',
    async (_name, index) => {
      const customer = await gateway.customer()
      upstream.respondWith(wrongAnswers[index]![1])
      const response = await embed(customer, { model: `wrong-${index}`, input: ['a', 'b'], dimensions: 2 })
      expect(await read(response)).toMatchObject({ error: { code: 'all_hosters_failed' } })
      expect(await gateway.usage(customer)).toMatchObject([{ outcome: 'unserved', cost_nanos: 0n, success: false }])
    },
  )

  test('after a wrong answer, another server is tried', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(embeddings({ change: ([first]) => [first] }))
    other.respondWith(embeddings({ promptTokens: 5 }))
    const response = await embed(customer, { model: 'vectors', input: ['a', 'b'], tier: 'cheapest' })
    const { data, usage } = await read(response)
    expect(data).toHaveLength(2)
    expect(usage).toMatchObject({ prompt_tokens: 5, cost_usd: 0.00001 })
    const [row] = await gateway.usage(customer)
    expect(row!.attempts.map(({ outcome }) => outcome)).toEqual(['malformed', 'answered'])
  })

  test('a client that leaves before the answer pays nothing the first time', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(stall())
    const leaving = new AbortController()
    const asked = fetch(`${gateway.url}/v1/embeddings`, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'vectors', input: 'left', tier: 'cheapest' }),
      signal: leaving.signal,
    })
    while ((await upstream.next()).body.input !== 'left');
    leaving.abort()
    await expect(asked).rejects.toThrow()
    expect(await gateway.settled(customer, 1)).toMatchObject([{ outcome: 'client_gone', cost_nanos: 0n }])
  })
})

test('an Idempotency-Key repeats the answer without another charge', async () => {
  const customer = await gateway.customer()
  upstream.respondWith(embeddings())
  const before = upstream.requests.length
  const send = () => embed(customer, { model: 'vectors', input: 'a' }, { 'idempotency-key': 'one' })
  const first = await (await send()).text()
  const second = await send()
  expect(await second.text()).toBe(first)
  expect(second.headers.get('idempotent-replayed')).toBe('true')
  expect(upstream.requests.length - before).toBe(1)
  expect(await gateway.usage(customer)).toHaveLength(1)
})

test('dry_run returns a quote without output tokens', async () => {
  const customer = await gateway.customer()
  const before = upstream.requests.length
  const response = await embed(customer, { model: 'vectors', input: [[1, 2, 3]], dry_run: true, tier: 'cheapest' })
  expect(await read(response)).toMatchObject({
    model: 'vectors',
    max_tokens: 0,
    max_tokens_clamped_by: null,
    expected: { cost_usd: 0.000003, input_tokens: 3, output_tokens: 0 },
    worst_case_cost_usd: 0.000006,
    candidates: [{ rank: 1, max_tokens: 0, worst_case_cost_usd: 0.000003 }, { rank: 2 }],
  })
  expect(upstream.requests).toHaveLength(before)
})

test('headers set routing constraints, but fallback models do not apply', async () => {
  const customer = await gateway.customer()
  const headers = { 'x-switchyard-tier': 'cheapest', 'x-switchyard-fallback-models': 'float-only' }
  const response = await embed(customer, { model: 'vectors', input: 'a', dry_run: true }, headers)
  const { candidates } = await read(response)
  expect(candidates.map(({ model, endpoint }: Record<string, string>) => [model, endpoint])).toEqual([
    ['vectors', `endpoint-${upstream.port}`],
    ['vectors', `endpoint-${other.port}`],
  ])
})

test('an answer for which the gateway has no memory is refused', async () => {
  const vectors = testOffer(upstream.baseUrl, { modelId: 'vectors', price, features, contextTokens: 512 })
  const small = await startTestApp({ yaml: 'server: { memory_budget_bytes: 1048576 }', offers: [vectors] })
  try {
    const customer = await small.customer()
    const send = async (inputs: number) => {
      const body = { model: 'vectors', input: Array(inputs).fill('a'), dimensions: 1_000 }
      upstream.respondWith(embeddings())
      const response = await fetch(`${small.url}/v1/embeddings`, {
        method: 'POST',
        headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      return [response.status, (await read(response)).error?.code]
    }
    expect(await send(10)).toEqual([200, undefined])
    expect(await send(18)).toEqual([503, 'overloaded'])
    expect(await small.usage(customer)).toMatchObject([{ outcome: 'served' }, { cost_nanos: 0n }])
  } finally {
    await small.close()
  }
})
