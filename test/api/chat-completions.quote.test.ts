import { beforeAll, describe, expect, test } from 'vitest'
import { type ChatQuote, chatQuoteSchema } from '../../src/wire/api/chat-quote-schema.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { readError, readEventStream } from '../harness/event-stream.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const price = (usdPerMillion: number) => ({
  inputPicoPerToken: BigInt(usdPerMillion) * 1_000_000n,
  outputPicoPerToken: BigInt(usdPerMillion) * 1_000_000n,
})
const upstream = useUpstream()
const gateway = useTestApp(() => ({
  yaml: 'hosters: { allow_private_urls: true }',
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'mixed', price: price(1), endpoint: { endpointId: 'gpu-1' } }),
    testOffer(upstream.baseUrl, {
      modelId: 'mixed',
      price: price(100),
      endpoint: { endpointId: 'cloud-1', kind: 'cloud' },
    }),
    testOffer(upstream.baseUrl, { modelId: 'plain', price: price(1), endpoint: { endpointId: 'gpu-2' } }),
    // The first server can generate only a few tokens.
    ...[4, 4_096].map((maxOutputTokens, index) =>
      testOffer(upstream.baseUrl, {
        ...{ modelId: 'capped', maxOutputTokens, price: price(index + 1), endpoint: { endpointId: `capped-${index}` } },
      }),
    ),
  ],
}))
let hosterId: string

beforeAll(async () => {
  upstream.always(answer({ usage: usageOf(10, 5) }))
  hosterId = await gateway.hoster({ baseUrl: `${upstream.baseUrl}/hoster`, models: [{ modelId: 'mixed' }] })
})

const messages = [{ role: 'user', content: 'How far is it to the river?' }]

async function quoteOf(customer: TestCustomer, body: object): Promise<ChatQuote> {
  const response = await gateway.chat(customer, { messages, ...body, dry_run: true })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toContain('application/json')
  const quote = (await response.json()) as ChatQuote
  expect(chatQuoteSchema.parse(quote)).toEqual(quote)
  expect(quote.id).toBe(response.headers.get('x-request-id'))
  return quote
}

describe('dry_run', () => {
  test('expects at no server more than the worst case', async () => {
    const { candidates, expected } = await quoteOf(await gateway.customer(), { model: 'capped' })
    expect(candidates.map(({ endpoint, max_tokens }) => [endpoint, max_tokens])).toContainEqual(['capped-0', 4])
    for (const { expected_cost_usd: cost, worst_case_cost_usd: worst } of candidates)
      expect(cost).toBeLessThanOrEqual(worst)
    expect(expected!.cost_usd).toBe(candidates[0]!.expected_cost_usd)
    expect(expected!.output_tokens).toBeLessThanOrEqual(candidates[0]!.max_tokens)
  })

  test('lists the servers in order, the excluded ones with the reason, and the cost', async () => {
    const customer = await gateway.customer()
    const asked = { model: 'mixed', tier: 'cheapest', max_tokens: 100, privacy_mode: true }
    const quote = await quoteOf(customer, asked)
    expect(quote).toMatchObject({
      object: 'chat.completion.quote',
      model: 'mixed',
      max_tokens: 100,
      max_tokens_clamped_by: null,
      candidates: [
        { rank: 1, provider: 'local', endpoint: 'gpu-1', hoster_id: null, price: { version: null }, state: 'open' },
        { rank: 2, provider: 'hoster', hoster_id: hosterId, hoster_name: 'hoster-1', price: { version: 1 } },
      ],
      excluded: [{ provider: 'cloud', endpoint: 'cloud-1', reason: 'privacy_mode' }],
      refusal: null,
    })
    const { input_tokens, output_tokens, cost_usd } = quote.expected!
    expect(output_tokens).toBe(100)
    expect(Math.round(cost_usd * 1e9)).toBe((input_tokens + output_tokens) * 1_000)
    // The most expensive candidate: output at 2 USD per million.
    expect(quote.hold_usd).toBe(quote.candidates[1]!.worst_case_cost_usd)
    expect(quote.worst_case_cost_usd).toBe(quote.hold_usd)

    await (await gateway.chat(customer, { messages, ...asked })).text()
    const [row] = await gateway.usage(customer)
    expect(row!.hold_nanos).toBe(BigInt(Math.round(quote.hold_usd! * 1e9)))
  })

  test('sends, holds, charges and records nothing, but counts against the rate limits', async () => {
    const customer = await gateway.customer({ limits: { requestsPerMinute: 2, requestsPerDay: 100 } })
    const sent = upstream.requests.length
    const headers = []
    for (const stream of [false, true]) {
      const response = await gateway.chat(customer, { model: 'plain', messages, stream, dry_run: true })
      expect(await response.json()).toMatchObject({ object: 'chat.completion.quote' })
      headers.push(response.headers.get('x-ratelimit-remaining-requests'))
    }
    expect(headers).toEqual(['1', '0'])
    const refused = await readError(await gateway.chat(customer, { model: 'plain', messages, dry_run: true }))
    expect(refused).toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
    expect(upstream.requests.length).toBe(sent)
    expect(await gateway.usage(customer)).toEqual([])
    expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n)
    const { rows } = await gateway.database.pool.query('SELECT FROM lease WHERE customer_id = $1', [
      customer.customerId,
    ])
    expect(rows).toEqual([])
  })

  test('does not use up the Idempotency-Key of the request that follows', async () => {
    const customer = await gateway.customer()
    const once = { headers: { 'idempotency-key': 'after-the-quote' } }
    for (let n = 0; n < 2; n++) {
      const quoted = await gateway.chat(customer, { model: 'plain', messages, dry_run: true }, once)
      expect([quoted.status, quoted.headers.get('idempotent-replayed')]).toEqual([200, null])
      expect(await quoted.json()).toMatchObject({ object: 'chat.completion.quote' })
    }
    // A key that the request could not use is refused before it is sent.
    const long = { headers: { 'idempotency-key': 'k'.repeat(256) } }
    expect((await gateway.chat(customer, { model: 'plain', messages, dry_run: true }, long)).status).toBe(400)
    const run = await gateway.chat(customer, { model: 'plain', messages }, once)
    expect([run.status, run.headers.get('idempotent-replayed')]).toEqual([200, null])
  })

  test('expects 256 output tokens per choice, or max_tokens if that is less', async () => {
    const customer = await gateway.customer()
    const output = async (more: object) =>
      (await quoteOf(customer, { model: 'plain', ...more })).expected!.output_tokens
    expect(await output({})).toBe(256)
    expect(await output({ n: 3 })).toBe(768)
    expect(await output({ max_tokens: 20 })).toBe(20)
  })

  test('quotes a request that no server could serve with its refusal', async () => {
    const customer = await gateway.customer()
    const tooLong = [{ role: 'user', content: 'x'.repeat(300_000) }]
    const quote = await quoteOf(customer, { model: 'plain', tools: [{}], messages: tooLong })
    expect(quote).toMatchObject({
      candidates: [],
      expected: null,
      hold_usd: null,
      excluded: [{ endpoint: 'gpu-2', reason: 'context_too_small' }],
      refusal: { code: 'context_length_exceeded', param: 'messages' },
    })
  })

  test('refuses an unknown model and an invalid body', async () => {
    const customer = await gateway.customer()
    const refused = async (body: object) =>
      readError(await gateway.chat(customer, { messages, dry_run: true, ...body }))
    expect(await refused({ model: 'unknown-model' })).toMatchObject({ status: 404, code: 'model_not_found' })
    expect(await refused({ model: 'plain', dry_run: 'yes' })).toMatchObject({ status: 400, param: 'dry_run' })
    expect(await refused({ model: 'plain', temperature: 9 })).toMatchObject({ status: 400, param: 'temperature' })
  })

  test('false and null are normal requests, and the fields are not forwarded', async () => {
    const customer = await gateway.customer()
    for (const dry_run of [false, null]) {
      const response = await gateway.chat(customer, { model: 'plain', messages, dry_run, max_cost_usd: 1 })
      expect(await response.json()).toMatchObject({ object: 'chat.completion' })
      expect(upstream.requests.at(-1)!.body).not.toHaveProperty('dry_run')
      expect(upstream.requests.at(-1)!.body).not.toHaveProperty('max_cost_usd')
    }
  })
})

describe('max_cost_usd', () => {
  test('lowers max_tokens and the hold, and shows so in a header and on the receipt', async () => {
    const customer = await gateway.customer()
    const response = await gateway.chat(customer, { model: 'plain', messages, max_tokens: 4_000, max_cost_usd: 0.0003 })
    await response.text()
    const allowed = Number(response.headers.get('x-switchyard-max-tokens'))
    expect(upstream.requests.at(-1)!.body.max_tokens).toBe(allowed)
    const [row] = await gateway.usage(customer)
    // Each token costs 1,000 nano-USD, so the hold is exactly the cap.
    expect(row!.hold_nanos).toBe(300_000n)
    const receipt = await gateway.get(customer, `/v1/usage/requests/${row!.request_id}`)
    expect(await receipt.json()).toMatchObject({
      hold_usd: 0.0003,
      policy: { max_cost_usd: 0.0003 },
      max_tokens_clamp: { asked: 4_000, allowed, by: 'max_cost_usd' },
    })
    const quote = await quoteOf(customer, { model: 'plain', max_tokens: 4_000, max_cost_usd: 0.0003 })
    expect(quote).toMatchObject({ max_tokens: allowed, max_tokens_clamped_by: 'max_cost_usd', hold_usd: 0.0003 })
  })

  test('on the receipt, the clamp names on_insufficient if that is the lower one', async () => {
    const customer = await gateway.customer({ creditNanos: 200_000n })
    const asked = { model: 'plain', messages, max_tokens: 4_000, max_cost_usd: 0.0003, on_insufficient: 'clamp' }
    const response = await gateway.chat(customer, asked)
    await response.text()
    const allowed = Number(response.headers.get('x-switchyard-max-tokens'))
    const receipt = await gateway.get(customer, `/v1/usage/requests/${response.headers.get('x-request-id')}`)
    expect(await receipt.json()).toMatchObject({
      hold_usd: 0.0002,
      max_tokens_clamp: { asked: 4_000, allowed, by: 'on_insufficient' },
    })
  })

  test('cuts a stream at the cap and charges nothing beyond it', async () => {
    const customer = await gateway.customer()
    const pieces = Array.from({ length: 2_000 }, (_, index) => ` word${index}`)
    upstream.respondWith(answer({ pieces, usage: usageOf(10, 2_000) }))
    const response = await gateway.chat(customer, { model: 'plain', messages, stream: true, max_cost_usd: 0.0003 })
    expect(Number(response.headers.get('x-switchyard-max-tokens'))).toBeGreaterThan(0)
    const stream = await readEventStream(response)
    expect(stream).toMatchObject({ done: true, finishReasons: ['length'] })
    const [row] = await gateway.usage(customer)
    expect(row!.cost_nanos).toBeLessThanOrEqual(300_000n)
    expect(row!.cost_nanos).toBeGreaterThan(0n)
  })

  test('excludes servers that are too expensive instead of shortening the answer', async () => {
    const customer = await gateway.customer()
    const asked = { model: 'mixed', max_tokens: 50, max_cost_usd: 0.0006, deny_hosters: [hosterId] }
    const response = await gateway.chat(customer, { messages, ...asked })
    await response.text()
    expect(response.status).toBe(200)
    expect(response.headers.get('x-switchyard-max-tokens')).toBeNull()
    const receipt = await gateway.get(customer, `/v1/usage/requests/${response.headers.get('x-request-id')}`)
    expect(await receipt.json()).toMatchObject({
      max_tokens_clamp: null,
      candidates: [
        { endpoint: 'gpu-1', status: 'answered' },
        { endpoint: 'cloud-1', status: 'excluded', reason: 'max_cost_usd' },
        { provider: 'hoster', status: 'excluded', reason: 'deny_hosters' },
      ],
    })
  })

  test('a cap below the cost of one token is 400 with the smallest sufficient amount', async () => {
    const customer = await gateway.customer()
    const refused = await readError(
      await gateway.chat(customer, { model: 'mixed', messages, max_cost_usd: 0.00001, privacy_mode: true }),
    )
    expect(refused).toMatchObject({ status: 400, code: 'max_cost_too_low', param: 'max_cost_usd' })
    expect(refused.message).toMatch(
      /^max_cost_usd is 0.00001, but the prompt with one output token may cost 0.000\d+ USD/,
    )
    expect(refused.message).toContain('max_cost_usd excluded 2 offers')
    const smallest = Number(/may cost (0\.\d+) USD/.exec(refused.message)![1])
    const paid = await gateway.chat(customer, { model: 'mixed', messages, max_cost_usd: smallest })
    expect(paid.headers.get('x-switchyard-max-tokens')).toBe('1')
    await paid.text()
    expect(await gateway.usage(customer)).toHaveLength(1)
  })

  test.each([0, -1, '0.5', true, 1e-10, 1_000_001, Number.MAX_VALUE])('%j is refused by name', async max_cost_usd => {
    const customer = await gateway.customer()
    const refused = await readError(await gateway.chat(customer, { model: 'plain', messages, max_cost_usd }))
    expect(refused).toMatchObject({ status: 400, code: 'invalid_value', param: 'max_cost_usd' })
    expect(refused.message).toContain('an amount of USD from 0.000000001 to 1000000')
  })
})
