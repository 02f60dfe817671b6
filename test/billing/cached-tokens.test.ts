import { expect, test } from 'vitest'
import type { TokenUsage } from '../../src/base/domain/completion.ts'
import { offerPrice, type PriceList, plainPrices } from '../../src/base/domain/price-list.ts'
import { testOffer } from '../harness/app.ts'
import { readEventStream } from '../harness/event-stream.ts'
import { answer, usageOf } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const nanos = (perToken: bigint) => perToken * 1_000n
/** Input 10, output 100, cached 1, written 12 nano-USD a token. */
const list: PriceList = {
  ...plainPrices(nanos(10n), nanos(100n)),
  parts: { cache_read: nanos(1n), cache_write: nanos(12n) },
}
const withStep: PriceList = {
  ...list,
  perRequest: nanos(7n),
  steps: [{ ...plainPrices(nanos(20n), nanos(150n)), aboveInputTokens: 20 }],
}
const cloud = { kind: 'cloud', endpointId: 'a-cloud' } as const
const gateway = useTestApp(() => ({
  offers: [
    testOffer(upstream.baseUrl, { modelId: 'plain' }),
    testOffer(upstream.baseUrl, { modelId: 'cached', price: offerPrice(list, 'cloud', 0), endpoint: cloud }),
    testOffer(upstream.baseUrl, { modelId: 'stepped', price: offerPrice(withStep, 'cloud', 0), endpoint: cloud }),
  ],
}))

const body = (model: string) => ({ model, messages: [{ role: 'user', content: 'Hello' }], max_tokens: 16 })
const cachedUsage = (prompt: number, read: number, written: number): TokenUsage => ({
  ...usageOf(prompt, 5),
  prompt_tokens_details: { cached_tokens: read, cache_write_tokens: written },
  completion_tokens_details: { reasoning_tokens: 3 },
})

async function ask(model: string, usage: TokenUsage, stream = false) {
  const customer = await gateway.customer()
  upstream.respondWith(answer({ usage }))
  const response = await gateway.chat(customer, {
    ...body(model),
    ...(stream && { stream: true, stream_options: { include_usage: true } }),
  })
  expect(response.status).toBe(200)
  const shown = stream ? (await readEventStream(response)).chunks.at(-1) : await response.json()
  const [row] = await gateway.usage(customer)
  return { usage: (shown as { usage: TokenUsage }).usage, row: row!, customer }
}

test.each([false, true])('cached and written tokens are billed at their prices, streamed: %s', async stream => {
  const { usage, row } = await ask('cached', cachedUsage(60, 40, 15), stream)
  expect(row).toMatchObject({
    input_tokens: 60,
    cost_nanos: 5n * 10n + 40n * 1n + 15n * 12n + 5n * 100n,
    cache_read_tokens: 40,
    cache_write_tokens: 15,
    reasoning_tokens: 3,
  })
  expect(usage).toMatchObject({
    prompt_tokens: 60,
    prompt_tokens_details: { cached_tokens: 40, cache_write_tokens: 15 },
    completion_tokens_details: { reasoning_tokens: 3 },
    cost_usd: Number(row.cost_nanos) / 1e9,
  })
})

test('cached tokens cost the input price where they have none of their own', async () => {
  const { row } = await ask('plain', cachedUsage(60, 40, 0))
  expect(row).toMatchObject({ cost_nanos: 60n * 1_000n + 5n * 2_000n, cache_read_tokens: 40 })
})

test('a report without cached tokens leaves no trace of parts', async () => {
  const { row, usage } = await ask('cached', usageOf(60, 5))
  expect(row).toMatchObject({ cost_nanos: 600n + 500n, cache_read_tokens: null, other_parts: null })
  expect(usage.prompt_tokens_details).toBeUndefined()
})

test('a report of more cached tokens than the prompt has is cut to it', async () => {
  const { row, usage } = await ask('cached', cachedUsage(60, 50, 1_000))
  expect(row).toMatchObject({ cost_nanos: 50n * 1n + 10n * 12n + 500n, cache_read_tokens: 50, cache_write_tokens: 10 })
  expect(usage.prompt_tokens_details).toEqual({ cached_tokens: 50, cache_write_tokens: 10 })
})

test('a step applies to the whole request, and a request has its own price', async () => {
  const short = await ask('stepped', cachedUsage(20, 10, 0))
  expect(short.row.cost_nanos).toBe(10n * 10n + 10n * 1n + 5n * 100n + 7n)
  // The step names no cache price, so cached tokens cost its input price, and no price for each request.
  const long = await ask('stepped', cachedUsage(21, 10, 0))
  expect(long.row).toMatchObject({ cost_nanos: 21n * 20n + 5n * 150n, input_pico_per_token: nanos(20n) })
})

test('the hold covers a prompt that is written to the cache whole, at the most expensive step that it may reach', async () => {
  const held = async (model: string) => (await ask(model, usageOf(10, 5))).row.hold_nanos
  // 16 for the message, 64 for the request, 5 bytes.
  expect(await held('cached')).toBe(85n * 12n + 16n * 100n)
  // Without a write price, the step has 1.25 times its input price.
  expect(await held('stepped')).toBe(85n * 25n + 16n * 150n + 7n)
})

test('the receipt, the list and the breakdown show cached tokens, and the receipt names what was left out', async () => {
  const customer = await gateway.customer()
  upstream.respondWith(answer({ usage: cachedUsage(60, 40, 15) }))
  const request = { ...body('cached'), service_tier: 'priority', web_search_options: {} }
  const response = await gateway.chat(customer, request)
  expect(response.headers.get('x-switchyard-dropped-fields')).toBe('service_tier, web_search_options')
  await response.arrayBuffer()
  const read = async (path: string) => (await gateway.get(customer, path)).json() as Promise<Record<string, unknown>>

  const receipt = await read(`/v1/usage/requests/${response.headers.get('x-request-id')}`)
  expect(receipt).toMatchObject({
    price: { input_usd_per_million: 0.01, output_usd_per_million: 0.1 },
    tokens: {
      billed: { input: 60, output: 5 },
      parts: [
        { kind: 'cache_read', tokens: 40, usd_per_million: 0.001 },
        { kind: 'cache_write', tokens: 15, usd_per_million: 0.012 },
      ],
      reasoning: 3,
    },
    dropped_fields: ['service_tier', 'web_search_options'],
  })
  expect((await read('/v1/usage/requests')).data).toMatchObject([{ input_tokens: 60, cached_tokens: 40 }])
  const breakdown = await read('/v1/usage/breakdown?days=1')
  expect(breakdown.by_model).toMatchObject([{ input_tokens: 60, cached_tokens: 40 }])
  expect(breakdown.daily).toMatchObject([{ input_tokens: 60, cached_tokens: 40 }])
})

test('the price of a request is a part of its own', async () => {
  const { row, customer } = await ask('stepped', usageOf(10, 5))
  const { tokens } = (await (await gateway.get(customer, `/v1/usage/requests/${row.request_id}`)).json()) as {
    tokens: { parts: unknown[] }
  }
  expect(tokens.parts).toEqual([{ kind: 'request', tokens: 1, usd_per_million: 0.007 }])
})
