import { randomUUID } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { usdText } from '../../src/base/domain/money.ts'
import { offerPrice, type PriceList, plainPrices } from '../../src/base/domain/price-list.ts'
import { type ChatQuote, chatQuoteSchema } from '../../src/wire/api/chat-quote-schema.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { textCompletion } from '../harness/scripted-completions.ts'
import { embeddings } from '../harness/scripted-embeddings.ts'
import { answer, type Behaviour, status, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'
import { parseCsv } from '../usage/parse-csv.ts'

// Every feature that is sold with a generation endpoint, at every such endpoint.

// biome-ignore lint/suspicious/noExplicitAny: a body of any dialect
type Json = any

interface Endpoint {
  readonly path: string
  /** Without a limit of the output. */
  readonly body: object
  /** The field with the limit of the output; null: nothing is generated. */
  readonly limitField: string | null
  /** What the default of `on_insufficient` does. */
  readonly ifShort: 'refuse' | 'clamp to 4,096 tokens at least'
  /** Reads the usage of an answer, or of the last event of a stream that has one. */
  readonly usage: (data: Json) => Json
  /** Null: the dialect has no place for it, or the server reports none. */
  readonly tokens: (usage: Json) => { input: number; output: number; cached: number | null; reasoning: number | null }
}

const messages = [{ role: 'user', content: 'How far is it to the river?' }]
const openAiTokens = (usage: Json) => ({
  input: usage.prompt_tokens,
  output: usage.completion_tokens ?? 0,
  cached: usage.prompt_tokens_details?.cached_tokens ?? null,
  reasoning: usage.completion_tokens_details?.reasoning_tokens ?? null,
})
const ofGoogle = {
  usage: ({ usageMetadata }: Json) => usageMetadata,
  tokens: ({ promptTokenCount, candidatesTokenCount, thoughtsTokenCount, cachedContentTokenCount }: Json) => ({
    input: promptTokenCount,
    // Google counts thoughts apart from the answer.
    output: candidatesTokenCount === undefined ? 0 : candidatesTokenCount + thoughtsTokenCount,
    cached: cachedContentTokenCount ?? null,
    reasoning: thoughtsTokenCount ?? null,
  }),
}
const ofOpenAi = { usage: ({ usage }: Json) => usage, tokens: openAiTokens }

/** A new endpoint is a row here, and its answer a case of `behaviour`. */
const endpoints: readonly Endpoint[] = [
  {
    ...ofOpenAi,
    path: '/v1/chat/completions',
    body: { model: 'chat', messages },
    limitField: 'max_tokens',
    ifShort: 'refuse',
  },
  {
    ...ofOpenAi,
    path: '/v1/completions',
    body: { model: 'text', prompt: 'On the lake, where the ferry leaves at six, it is still dark.' },
    limitField: 'max_tokens',
    ifShort: 'refuse',
  },
  {
    path: '/v1/responses',
    body: { model: 'chat', input: 'How far is it to the river?' },
    limitField: 'max_output_tokens',
    ifShort: 'clamp to 4,096 tokens at least',
    usage: ({ usage, response }) => usage ?? response?.usage,
    tokens: usage => ({
      input: usage.input_tokens,
      output: usage.output_tokens,
      cached: usage.input_tokens_details.cached_tokens,
      reasoning: usage.output_tokens_details.reasoning_tokens,
    }),
  },
  {
    path: '/v1/messages',
    body: { model: 'chat', messages },
    limitField: 'max_tokens',
    ifShort: 'clamp to 4,096 tokens at least',
    usage: ({ usage }) => usage,
    tokens: ({ cache_read_input_tokens: read, cache_creation_input_tokens: written, ...usage }) => ({
      // Anthropic counts cached tokens apart from the input.
      input: usage.input_tokens + read + written,
      output: usage.output_tokens,
      cached: read,
      reasoning: usage.output_tokens_details?.thinking_tokens ?? null,
    }),
  },
  {
    path: '/v1beta/models/chat:generateContent',
    body: { contents: [{ role: 'user', parts: [{ text: 'How far is it to the river?' }] }] },
    limitField: 'maxOutputTokens',
    ifShort: 'clamp to 4,096 tokens at least',
    ...ofGoogle,
  },
  {
    ...ofOpenAi,
    path: '/v1/embeddings',
    body: { model: 'vectors', input: ['a ferry', 'a ship'] },
    limitField: null,
    ifShort: 'refuse',
  },
  {
    ...ofOpenAi,
    path: '/v1/rerank',
    body: { model: 'ranker', query: 'When?', documents: ['At six.', 'A bill.'] },
    limitField: null,
    ifShort: 'refuse',
  },
  {
    ...ofGoogle,
    path: '/v1beta/models/vectors:embedContent',
    body: { content: { parts: [{ text: 'A ferry on the lake leaves at six.' }] } },
    limitField: null,
    ifShort: 'refuse',
  },
  {
    ...ofGoogle,
    path: '/v1beta/models/vectors:batchEmbedContents',
    body: { requests: ['a ferry', 'a ship'].map(text => ({ content: { parts: [{ text }] } })) },
    limitField: null,
    ifShort: 'refuse',
  },
]
const generating = endpoints.filter(({ limitField }) => limitField !== null)
const computing = endpoints.filter(({ limitField }) => limitField === null)

const INPUT = 60
const READ = 40
const WRITTEN = 15
const OUTPUT = 5
const REASONING = 2
const reported = {
  ...usageOf(INPUT, OUTPUT),
  prompt_tokens_details: { cached_tokens: READ, cache_write_tokens: WRITTEN },
  completion_tokens_details: { reasoning_tokens: REASONING },
}

function behaviour(): Behaviour {
  const rerank = status(200, {
    results: [0.1, 0.9].map((relevance_score, index) => ({ index, relevance_score })),
    usage: { prompt_tokens: INPUT, total_tokens: INPUT },
  })
  const byPath: Record<string, Behaviour> = {
    '/v1/chat/completions': answer({ usage: reported }),
    '/v1/completions': textCompletion({ usage: reported }),
    '/v1/embeddings': embeddings({ promptTokens: INPUT }),
    '/v1/rerank': rerank,
  }
  return (request, response) => byPath[request.path]!(request, response)
}

const nanos = (perToken: bigint) => perToken * 1_000n
/** Nano-USD: input 10 a token, output 100, read 1, written 12, and 7 a request. */
const list: PriceList = {
  ...plainPrices(nanos(10n), nanos(100n)),
  parts: { cache_read: nanos(1n), cache_write: nanos(12n) },
  perRequest: nanos(7n),
}
const price = offerPrice(list, 'cloud', 0)
const upstream = useUpstream()
const gateway = useTestApp(() => {
  const offer = { price, endpoint: { kind: 'cloud' as const, endpointId: 'cloud' } }
  return {
    yaml: 'reports: { requests_per_minute: 10000 }',
    offers: [
      testOffer(upstream.baseUrl, { ...offer, modelId: 'chat' }),
      testOffer(upstream.baseUrl, { ...offer, modelId: 'text', features: new Set(['completions']) }),
      testOffer(upstream.baseUrl, { ...offer, modelId: 'vectors', features: new Set(['embeddings']) }),
      testOffer(upstream.baseUrl, { ...offer, modelId: 'ranker', features: new Set(['rerank']) }),
    ],
  }
})
beforeAll(() => upstream.always(behaviour()))

interface Asked {
  readonly more?: object
  readonly headers?: Record<string, string>
}

const isGemini = ({ path }: Endpoint) => path.startsWith('/v1beta/')

function ask(endpoint: Endpoint, customer: TestCustomer, { more, headers }: Asked = {}): Promise<Response> {
  const { path, body } = endpoint
  const isStream = more !== undefined && 'stream' in more && isGemini(endpoint)
  return fetch(
    `${gateway.url}${isStream ? path.replace(':generateContent', ':streamGenerateContent?alt=sse') : path}`,
    {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', ...headers },
      body: JSON.stringify({ ...body, ...more, ...(isStream && { stream: undefined }) }),
    },
  )
}

const read = async (customer: TestCustomer, path: string): Promise<Json> => (await gateway.get(customer, path)).json()

/** Reads an error: the gateway's code and fields are in the object `error`, at Gemini in its first detail, as texts. */
async function errorOf(response: Response): Promise<Json> {
  const { error } = (await response.json()) as Json
  const { status } = response
  if (error.details === undefined) return { status, ...error }
  const { reason, metadata } = error.details[0]
  const fields = Object.entries<string>(metadata).map(([name, text]) => [
    name,
    /^[\d.]+(?:e-\d+)?$/.test(text) ? Number(text) : text,
  ])
  return { status, code: reason, ...Object.fromEntries(fields) }
}

/** A limit of the output that every endpoint accepts; nothing where nothing is generated. */
function limited(endpoint: Endpoint, tokens = 100): object {
  if (endpoint.limitField === null) return {}
  const limit = { [endpoint.limitField]: tokens }
  return isGemini(endpoint) ? { generationConfig: limit } : limit
}

/** What the request holds, in nano-USD: the quote of a customer with ample credit. */
async function holdOf(endpoint: Endpoint, more: object): Promise<bigint> {
  const quote = await quoteOf(endpoint, await gateway.customer(), more)
  return BigInt(Math.round(quote.hold_usd! * 1e9))
}

async function quoteOf(endpoint: Endpoint, customer: TestCustomer, more: object): Promise<ChatQuote> {
  const response = await ask(endpoint, customer, { more: { ...more, dry_run: true } })
  expect(response.status).toBe(200)
  const quote = (await response.json()) as ChatQuote
  expect(chatQuoteSchema.parse(quote)).toEqual(quote)
  return quote
}

/** What the scripted answer costs, in nano-USD. */
const costOf = ({ limitField }: Endpoint) =>
  limitField === null
    ? BigInt(INPUT) * 10n + 7n
    : BigInt(INPUT - READ - WRITTEN) * 10n + BigInt(READ) + BigInt(WRITTEN) * 12n + BigInt(OUTPUT) * 100n + 7n

describe.each(endpoints)('$path', endpoint => {
  const isGenerating = endpoint.limitField !== null
  const cached = isGenerating ? READ : 0
  const output = isGenerating ? OUTPUT : 0
  const costNanos = costOf(endpoint)
  const costUsd = Number(costNanos) / 1e9
  /** Refused instead of clamped, whatever the default of the endpoint is. */
  const strict = { ...limited(endpoint), ...(isGenerating && { on_insufficient: 'refuse' }) }

  test('the cost is in the answer, its header, the receipt, the list, the CSV, the reports and the balance', async () => {
    const customer = await gateway.customer()
    const response = await ask(endpoint, customer, { more: strict })
    expect(response.status).toBe(200)
    const data: Json = await response.json()
    const usage = endpoint.usage(data)
    expect(usage.cost_usd).toBe(costUsd)
    const { reasoning, ...tokens } = endpoint.tokens(usage)
    expect(tokens).toEqual({ input: INPUT, output, cached: isGenerating ? READ : null })
    expect(reasoning).toBe(isGenerating ? REASONING : null)
    expect(Number(response.headers.get('x-switchyard-cost-usd'))).toBe(costUsd)

    const id = response.headers.get('x-request-id')!
    const parts = [
      { kind: 'cache_read', tokens: READ, usd_per_million: 0.001 },
      { kind: 'cache_write', tokens: WRITTEN, usd_per_million: 0.012 },
      { kind: 'request', tokens: 1, usd_per_million: 0.007 },
    ]
    expect(await read(customer, `/v1/usage/requests/${id}`)).toMatchObject({
      id,
      cost_usd: costUsd,
      price: { input_usd_per_million: 0.01, output_usd_per_million: 0.1 },
      tokens: {
        billed: { input: INPUT, output },
        parts: isGenerating ? parts : parts.slice(2),
        reasoning: isGenerating ? REASONING : null,
      },
    })
    expect((await read(customer, '/v1/usage/requests')).data).toMatchObject([
      { id, input_tokens: INPUT, output_tokens: output, cached_tokens: cached, cost_usd: costUsd },
    ])
    const sums = { requests: 1, input_tokens: INPUT, output_tokens: output, cached_tokens: cached }
    expect(await read(customer, '/v1/usage/breakdown?days=1')).toMatchObject({
      by_model: [{ ...sums, model_id: data.model ?? data.modelVersion, total_cost_usd: costUsd }],
      daily: [{ ...sums, cost_usd: costUsd }],
    })
    expect((await read(customer, '/v1/usage/tokens?days=1')).totals).toMatchObject({
      input_tokens: INPUT,
      output_tokens: output,
      requests: 1,
      cost_usd: costUsd,
    })
    expect((await read(customer, '/v1/usage')).usage_30d).toMatchObject({
      total_requests: 1,
      total_input_tokens: INPUT,
      total_output_tokens: output,
    })
    const [head, ...rows] = parseCsv(await (await gateway.get(customer, '/v1/usage/export?days=1')).text())
    const columns =
      'timestamp,model,provider,input_tokens,output_tokens,total_tokens,cost_usd,latency_ms,success,request_id,outcome,key_id,key,label,member'
    expect(head).toEqual(columns.split(','))
    expect(rows.map(row => row.slice(3, 7))).toEqual([
      [INPUT, output, INPUT + output].map(String).concat(usdText(costNanos)),
    ])
    expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n - costNanos)
  })

  test('a field without a price is not sent, and the answer and the receipt name it', async () => {
    const field = isGemini(endpoint) ? 'serviceTier' : 'service_tier'
    const customer = await gateway.customer()
    const response = await ask(endpoint, customer, { more: { ...strict, [field]: 'priority' } })
    expect(response.headers.get('x-switchyard-dropped-fields')).toBe(field)
    expect(upstream.requests.at(-1)!.body.service_tier).toBeUndefined()
    const receipt = await read(customer, `/v1/usage/requests/${response.headers.get('x-request-id')}`)
    expect(receipt.dropped_fields).toEqual([field])
  })

  test('dry_run quotes the prices by kind of token and the hold, and sends nothing', async () => {
    const customer = await gateway.customer()
    const sent = upstream.requests.length
    const quote = await quoteOf(endpoint, customer, strict)
    expect(upstream.requests.length).toBe(sent)
    expect(quote.candidates).toMatchObject([{ provider: 'cloud', endpoint: 'cloud' }])
    const { price, max_tokens: maxTokens } = quote.candidates[0]!
    expect(maxTokens).toBe(isGenerating ? 100 : 0)
    expect(price.parts).toEqual(
      expect.arrayContaining([
        { kind: 'cache_read', usd_per_million: 0.001 },
        { kind: 'cache_write', usd_per_million: 0.012 },
        { kind: 'request', usd_per_million: 0.007 },
      ]),
    )
    const { input_tokens, output_tokens, cost_usd } = quote.expected!
    expect(Math.round(cost_usd * 1e9)).toBe(input_tokens * 10 + output_tokens * 100 + 7)
    expect(output_tokens).toBe(isGenerating ? 100 : 0)

    await (await ask(endpoint, customer, { more: strict })).arrayBuffer()
    const [row] = await gateway.usage(customer)
    expect(row!.hold_nanos).toBe(BigInt(Math.round(quote.hold_usd! * 1e9)))
  })

  test.each(['a field', 'a header', 'a default of the key'])('max_cost_usd as %s', async form => {
    const hold = await holdOf(endpoint, strict)
    const capped = async (nanos: bigint) => {
      const usd = Number(nanos) / 1e9
      const key = form === 'a default of the key' ? { defaults: { max_cost_usd: usd } } : {}
      return ask(endpoint, await gateway.customer({ key }), {
        more: { ...strict, ...(form === 'a field' && { max_cost_usd: usd }) },
        ...(form === 'a header' && { headers: { 'x-switchyard-max-cost-usd': usd.toFixed(9) } }),
      })
    }
    const enough = await capped(hold)
    expect([enough.status, enough.headers.get('x-switchyard-max-tokens')]).toEqual([200, null])
    const less = await capped(hold - 1n)
    if (isGenerating) expect([less.status, less.headers.get('x-switchyard-max-tokens')]).toEqual([200, '99'])
    else expect(await errorOf(less)).toMatchObject({ status: 400, code: 'max_cost_too_low', param: 'max_cost_usd' })
    expect(await errorOf(await capped(1n))).toMatchObject({ status: 400, code: 'max_cost_too_low' })
  })

  test('the balance, the cap of the day and the limit of a key are exact', async () => {
    const hold = await holdOf(endpoint, strict)
    const needed = { status: 402, needed_usd: Number(hold) / 1e9 }
    const limits = { requestsPerMinute: 100, requestsPerDay: 100 }
    const statusFor = async (options: Parameters<typeof gateway.customer>[0]) =>
      ask(endpoint, await gateway.customer(options), { more: strict })

    expect((await statusFor({ creditNanos: hold })).status).toBe(200)
    expect(await errorOf(await statusFor({ creditNanos: hold - 1n }))).toMatchObject({
      ...needed,
      code: 'insufficient_credits',
    })
    expect((await statusFor({ limits: { ...limits, dailySpendCapNanos: hold } })).status).toBe(200)
    expect(await errorOf(await statusFor({ limits: { ...limits, dailySpendCapNanos: hold - 1n } }))).toMatchObject({
      ...needed,
      code: 'daily_spend_cap_reached',
    })
    const withLimit = (limitNanos: bigint) => statusFor({ key: { limit: { limitNanos, reset: 'daily' } } })
    expect((await withLimit(hold)).status).toBe(200)
    // A retry cannot help, so SDKs must not try.
    expect((await withLimit(hold - 1n)).headers.get('x-should-retry')).toBe('false')
    expect(await errorOf(await withLimit(hold - 1n))).toMatchObject({ ...needed, code: 'key_spend_limit_reached' })
  })

  test.each([
    ['minute', { requestsPerMinute: 1, requestsPerDay: 9 }, 'rate_limit_exceeded'],
    ['day', { requestsPerMinute: 9, requestsPerDay: 1 }, 'daily_limit_exceeded'],
  ])('the requests of a %s', async (window, counts, code) => {
    const customer = await gateway.customer({ limits: { ...counts, dailySpendCapNanos: 10n ** 12n } })
    const first = await ask(endpoint, customer, { more: strict })
    const remaining = `x-ratelimit-remaining-requests${window === 'day' ? '-day' : ''}`
    expect([first.status, first.headers.get(remaining)]).toEqual([200, '0'])
    const refused = await ask(endpoint, customer, { more: strict })
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(refused.headers.get('x-should-retry')).toBe(window === 'day' ? 'false' : null)
    expect(await errorOf(refused)).toMatchObject({ status: 429, code })
    const quote = await ask(endpoint, customer, { more: { ...strict, dry_run: true } })
    expect(await errorOf(quote)).toMatchObject({ status: 429, code })
  })

  test('an Idempotency-Key: replayed, in use, and with another body', async () => {
    const customer = await gateway.customer()
    const headers = { 'idempotency-key': randomUUID() }
    const asks = (more: object = {}) => ask(endpoint, customer, { more: { ...strict, ...more }, headers })
    const started = Promise.withResolvers<void>()
    const release = Promise.withResolvers<void>()
    upstream.respondWith(async (request, response) => {
      started.resolve()
      await release.promise
      await behaviour()(request, response)
    })
    const running = asks()
    await started.promise
    const inUse = await asks()
    expect(Number(inUse.headers.get('retry-after'))).toBeGreaterThan(0)
    expect(await errorOf(inUse)).toMatchObject({ status: 409, code: 'idempotency_key_in_use' })
    release.resolve()
    const first = await running
    const text = await first.text()
    const replay = await asks()
    expect([replay.status, replay.headers.get('idempotent-replayed'), await replay.text()]).toEqual([200, 'true', text])
    expect(replay.headers.get('x-request-id')).toBe(first.headers.get('x-request-id'))
    expect(await errorOf(await asks({ tier: 'fastest' }))).toMatchObject({
      status: 422,
      code: 'idempotency_key_reused',
    })
    expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n - costNanos)
  })
})

describe.each(generating)('$path, which generates text', endpoint => {
  const promptNanos = async () => (await holdOf(endpoint, limited(endpoint, 1))) - 100n
  const asks = async (tokens: number, creditNanos: bigint, more: object = {}) =>
    ask(endpoint, await gateway.customer({ creditNanos }), { more: { ...limited(endpoint, tokens), ...more } })

  test('a stream shows the same cost and cached tokens, and has the same receipt', async () => {
    const customer = await gateway.customer()
    const more = { ...limited(endpoint), stream: true }
    const withUsage = endpoint.usage === ofOpenAi.usage ? { stream_options: { include_usage: true } } : {}
    const response = await ask(endpoint, customer, { more: { ...more, ...withUsage } })
    const events = (await response.text()).split('\n').filter(line => line.startsWith('data: {'))
    const usage = events
      .map(line => endpoint.usage(JSON.parse(line.slice(6))))
      .findLast(each => each?.cost_usd !== undefined)
    expect(usage.cost_usd).toBe(Number(costOf(endpoint)) / 1e9)
    expect(endpoint.tokens(usage)).toMatchObject({ input: INPUT, output: OUTPUT, cached: READ })
    expect(await read(customer, `/v1/usage/requests/${response.headers.get('x-request-id')}`)).toMatchObject({
      cost_usd: usage.cost_usd,
      tokens: { parts: [{ kind: 'cache_read' }, { kind: 'cache_write' }, { kind: 'request' }] },
    })
  })

  test('on_insufficient: refuse names the limit that the credit covers', async () => {
    const credit = (await promptNanos()) + 50n * 100n
    expect(await errorOf(await asks(100, credit, { on_insufficient: 'refuse' }))).toMatchObject({
      status: 402,
      code: 'insufficient_credits',
      affordable_max_tokens: 50,
      param: endpoint.limitField,
    })
  })

  test('on_insufficient: clamp lowers the limit to what the credit covers', async () => {
    const credit = (await promptNanos()) + 5_000n * 100n
    const response = await asks(8_000, credit, { on_insufficient: 'clamp' })
    expect([response.status, response.headers.get('x-switchyard-max-tokens')]).toEqual([200, '5000'])
    const header = await ask(endpoint, await gateway.customer({ creditNanos: credit }), {
      more: limited(endpoint, 8_000),
      headers: { 'x-switchyard-on-insufficient': 'clamp' },
    })
    expect([header.status, header.headers.get('x-switchyard-max-tokens')]).toEqual([200, '5000'])
  })

  test(`on_insufficient by default: ${endpoint.ifShort}`, async () => {
    const prompt = await promptNanos()
    const few = await asks(8_000, prompt + 4_095n * 100n)
    expect(await errorOf(few)).toMatchObject({ status: 402, code: 'insufficient_credits' })
    const enough = await asks(8_000, prompt + 4_096n * 100n)
    if (endpoint.ifShort === 'refuse') expect(enough.status).toBe(402)
    else expect([enough.status, enough.headers.get('x-switchyard-max-tokens')]).toEqual([200, '4096'])
  })
})

describe.each(computing)('$path, which generates nothing', endpoint => {
  test('on_insufficient of the body is ignored, of a header has no effect', async () => {
    const hold = await holdOf(endpoint, {})
    const poor = () => gateway.customer({ creditNanos: hold - 1n })
    const field = await ask(endpoint, await poor(), { more: { on_insufficient: 'clamp' } })
    const header = await ask(endpoint, await poor(), { headers: { 'x-switchyard-on-insufficient': 'clamp' } })
    for (const response of [field, header]) {
      expect(await errorOf(response)).toMatchObject({ status: 402, code: 'insufficient_credits' })
    }
  })
})
