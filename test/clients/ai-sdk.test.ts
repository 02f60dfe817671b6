import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import {
  APICallError,
  generateText,
  isStepCount,
  jsonSchema,
  Output,
  RetryError,
  StreamProviderError,
  streamText,
  tool,
} from 'ai'
import { describe, expect, test } from 'vitest'
import { type ChatQuote, chatQuoteSchema } from '../../src/wire/api/chat-quote-schema.ts'
import type { TestCustomer } from '../harness/app.ts'
import { answer, sse, stall, streamEvents, usageOf } from '../harness/scripted-upstream.ts'
import {
  constraints,
  countingFetch,
  expectConstraintsFollowed,
  expectLeftAndBilled,
  useClientWorld,
  weatherTool,
  wrongConstraints,
} from './client-world.ts'

const world = useClientWorld()

type Settings = Partial<Parameters<typeof createOpenAICompatible>[0]>

function providerOf(customer: TestCustomer, settings: Settings = {}) {
  return createOpenAICompatible({ name: 'switchyard', baseURL: world.baseUrl, apiKey: customer.key, ...settings })
}

async function setUp(options: { creditNanos?: bigint } & Settings = {}) {
  const { creditNanos, ...settings } = options
  const customer = await world.gateway.customer(creditNanos === undefined ? {} : { creditNanos })
  return { customer, provider: providerOf(customer, settings) }
}

const weatherCall = { id: 'call_weather', name: 'get_weather', arguments: '{"place":"Bern"}' }
const placeSchema = jsonSchema<{ place: string }>(weatherTool.parameters)

test('generateText returns text, usage and id', async () => {
  const { provider } = await setUp()
  world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
  const result = await generateText({ model: provider('test-model'), prompt: 'Hello' })
  expect(result.text).toBe('Good morning')
  expect(result.finishReason).toBe('stop')
  expect(result.usage).toMatchObject({ inputTokens: 9, outputTokens: 2, totalTokens: 11, raw: { cost_usd: 0.000013 } })
  expect(result.response.id).toBe(`chatcmpl-${result.response.headers?.['x-request-id']}`)
})

test('a custom fetch can send the same request as a dry run first', async () => {
  const quotes: ChatQuote[] = []
  const { customer, provider } = await setUp({
    fetch: async (url, init) => {
      const dryRun = { ...JSON.parse(init!.body as string), dry_run: true }
      const asked = await fetch(url, { ...init, body: JSON.stringify(dryRun) })
      quotes.push(chatQuoteSchema.parse(await asked.json()))
      return fetch(url, init)
    },
  })
  const ask = {
    model: provider('test-model'),
    maxOutputTokens: 50,
    messages: [{ role: 'user' as const, content: 'Hello' }],
  }
  const { usage } = await generateText(ask)
  await streamText(ask).consumeStream()
  expect(quotes).toMatchObject([
    { object: 'chat.completion.quote', model: 'test-model', max_tokens: 50, refusal: null },
    { object: 'chat.completion.quote', model: 'test-model', max_tokens: 50, refusal: null },
  ])
  expect(usage.raw!.cost_usd).toBeLessThanOrEqual(quotes[0]!.worst_case_cost_usd!)
  // The quotes left no usage rows.
  expect(await world.gateway.usage(customer)).toHaveLength(2)
})

test('a quote is an error for generateText, not an answer', async () => {
  const { customer, provider } = await setUp()
  const asked = generateText({
    model: provider('test-model'),
    prompt: 'Hello',
    maxRetries: 0,
    providerOptions: { switchyard: { dry_run: true } },
  })
  const refused = (await asked.catch(error => error)) as APICallError
  expect(refused).toBeInstanceOf(APICallError)
  expect(refused.statusCode).toBe(200)
  expect(JSON.parse(refused.responseBody!)).toMatchObject({ object: 'chat.completion.quote', refusal: null })
  expect(await world.gateway.usage(customer)).toEqual([])
})

test('max_cost_usd is a provider option, and a header has the lowered maxOutputTokens', async () => {
  const { provider } = await setUp()
  const { response } = await generateText({
    model: provider('test-model'),
    prompt: 'Hello',
    maxOutputTokens: 1_000,
    providerOptions: { switchyard: { max_cost_usd: 0.0005 } },
  })
  const { max_tokens: sent, ...body } = world.upstream.requests.at(-1)!.body
  expect(sent).toBeLessThan(250)
  expect(response.headers?.['x-switchyard-max-tokens']).toBe(String(sent))
  expect(body).not.toHaveProperty('max_cost_usd')
})

test.each(['', '/'])('a base URL can end in "/v1%s"', async slash => {
  const { provider } = await setUp({ baseURL: `${world.baseUrl}${slash}` })
  expect((await generateText({ model: provider('test-model'), prompt: 'Hello' })).text).not.toBe('')
})

test('a stream has usage if it is requested', async () => {
  const { provider } = await setUp({ includeUsage: true })
  world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
  const result = streamText({ model: provider('test-model'), prompt: 'Hello' })
  const pieces: string[] = []
  for await (const piece of result.textStream) pieces.push(piece)
  expect(pieces).toEqual(['Good', ' morning'])
  expect(await result.finishReason).toBe('stop')
  expect(await result.usage).toMatchObject({ inputTokens: 9, outputTokens: 2, raw: { cost_usd: 0.000013 } })
})

test('a stream is billed by the reported usage even if the client did not request it', async () => {
  const { provider, customer } = await setUp()
  world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
  const result = streamText({ model: provider('test-model'), prompt: 'Hello' })
  expect(await result.text).toBe('Good morning')
  expect((await result.usage).inputTokens).toBeUndefined()
  expect(await world.gateway.usage(customer)).toMatchObject([{ cost_nanos: 13_000n, usage_source: 'upstream' }])
})

test.each([
  ['generateText', generateText],
  ['streamText', streamText],
] as const)('%s calls a tool and sends its result', async (_name, run) => {
  const { provider } = await setUp()
  world.upstream.respondWith(answer({ toolCalls: [weatherCall] }), answer({ text: 'It is sunny in Bern.' }))
  const places: string[] = []
  const get_weather = tool({
    description: weatherTool.description,
    inputSchema: placeSchema,
    execute: async ({ place }) => {
      places.push(place)
      return 'sunny'
    },
  })
  const result = await run({
    model: provider('test-model'),
    prompt: 'What is the weather in Bern?',
    tools: { get_weather },
    stopWhen: isStepCount(3),
  })
  expect(await result.text).toBe('It is sunny in Bern.')
  expect(places).toEqual(['Bern'])
  expect(world.upstream.requests.at(-1)!.body.messages).toMatchObject([
    { role: 'user' },
    { role: 'assistant', tool_calls: [{ id: 'call_weather' }] },
    { role: 'tool', tool_call_id: 'call_weather', content: 'sunny' },
  ])
})

test('structured outputs are forwarded and parsed', async () => {
  const { provider } = await setUp({ supportsStructuredOutputs: true })
  world.upstream.respondWith(answer({ text: '{"place":"Bern"}' }))
  const result = await generateText({
    model: provider('test-model'),
    prompt: 'Where is the parliament?',
    output: Output.object({ schema: placeSchema }),
  })
  expect(result.output).toEqual({ place: 'Bern' })
  expect(world.upstream.requests.at(-1)!.body.response_format).toMatchObject({
    type: 'json_schema',
    json_schema: { schema: weatherTool.parameters },
  })
})

test('an aborted stream is billed for its text', async () => {
  const { provider, customer } = await setUp()
  world.upstream.respondWith(stall({ pieces: ['one ', 'two ', 'three'] }))
  const abort = new AbortController()
  const result = streamText({ model: provider('test-model'), prompt: 'Hello', abortSignal: abort.signal })
  const parts: string[] = []
  for await (const part of result.fullStream) {
    parts.push(part.type)
    if (part.type === 'text-delta' && part.text === 'three') abort.abort()
  }
  expect(parts.at(-1)).toBe('abort')
  await expectLeftAndBilled(world, customer, 'one two three')
})

test('the routing fields are provider options', async () => {
  const { provider } = await setUp()
  const result = await generateText({
    model: provider('cloud-model'),
    prompt: 'Hello',
    providerOptions: { switchyard: { ...constraints, fallback_models: [...constraints.fallback_models] } as never },
  })
  expectConstraintsFollowed(world, result.response.modelId)
})

test.each(Object.entries(wrongConstraints))('an invalid %s is refused by name', async (param, value) => {
  const { provider } = await setUp()
  const refused = generateText({
    model: provider('test-model'),
    prompt: 'Hello',
    providerOptions: { switchyard: { [param]: value as string } },
  })
  await expect(refused).rejects.toMatchObject({
    statusCode: 400,
    data: { error: { code: 'invalid_value', param: expect.stringMatching(new RegExp(`^${param}\\b`)) } },
  })
})

describe('errors', () => {
  const requestId = { 'x-request-id': expect.stringMatching(/^[0-9a-f-]{36}$/) }

  test('401', async () => {
    const { provider } = await setUp({ apiKey: 'sk-sy-wrong' })
    const refused = generateText({ model: provider('test-model'), prompt: 'Hello' })
    await expect(refused).rejects.toBeInstanceOf(APICallError)
    await expect(refused).rejects.toMatchObject({
      message: expect.stringContaining('The API key is missing'),
      statusCode: 401,
      isRetryable: false,
      responseHeaders: requestId,
      data: { error: { type: 'invalid_request_error', code: 'invalid_api_key', param: null } },
    })
  })

  test('402', async () => {
    const { provider } = await setUp({ creditNanos: 1_000n })
    const refused = generateText({ model: provider('test-model'), prompt: 'Hello', maxOutputTokens: 100 })
    await expect(refused).rejects.toBeInstanceOf(APICallError)
    await expect(refused).rejects.toMatchObject({
      statusCode: 402,
      isRetryable: false,
      responseHeaders: requestId,
      data: { error: { type: 'insufficient_quota', code: 'insufficient_credits', param: 'messages' } },
    })
    // `data` has only the OpenAI fields. The others are in the body.
    const { responseBody } = (await refused.catch(error => error)) as { responseBody: string }
    expect(JSON.parse(responseBody).error).toMatchObject({
      balance_usd: 0.000001,
      needed_usd: expect.any(Number),
      affordable_max_tokens: 0,
    })
  })

  test('on_insufficient: clamp avoids a 402', async () => {
    const { provider } = await setUp({ creditNanos: 1_000_000n })
    const { response } = await generateText({
      model: provider('test-model'),
      prompt: 'Hello',
      maxOutputTokens: 5_000,
      providerOptions: { switchyard: { on_insufficient: 'clamp' } },
    })
    expect(Number(response.headers?.['x-switchyard-max-tokens'])).toBeGreaterThan(16)
    expect(String(world.upstream.requests.at(-1)!.body.max_tokens)).toBe(response.headers?.['x-switchyard-max-tokens'])
  })

  test('on_insufficient: clamp avoids a 402 for a stream, which reports its cost', async () => {
    const { provider } = await setUp({ creditNanos: 1_000_000n, includeUsage: true })
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const result = streamText({
      model: provider('test-model'),
      prompt: 'Hello',
      maxOutputTokens: 5_000,
      providerOptions: { switchyard: { on_insufficient: 'clamp' } },
    })
    expect(await result.text).toBe('Good morning')
    expect((await result.usage).raw).toMatchObject({ cost_usd: 0.000013 })
    const { headers } = await result.response
    expect(headers?.['x-switchyard-max-tokens']).toBe(String(world.upstream.requests.at(-1)!.body.max_tokens))
  })

  test('404', async () => {
    const { provider } = await setUp()
    const refused = generateText({ model: provider('no-model'), prompt: 'Hello' })
    await expect(refused).rejects.toBeInstanceOf(APICallError)
    await expect(refused).rejects.toMatchObject({
      statusCode: 404,
      isRetryable: false,
      responseHeaders: requestId,
      data: { error: { type: 'invalid_request_error', code: 'model_not_found', param: 'model' } },
    })
  })

  test('500, also for a stream', async () => {
    const counter = countingFetch()
    const { provider } = await setUp({ fetch: counter.fetch })
    const asked = { model: provider('broken-model'), prompt: 'Hello', maxRetries: 0 }
    const expected = {
      statusCode: 500,
      isRetryable: true,
      responseHeaders: requestId,
      data: { error: { type: 'server_error', code: 'all_hosters_failed', param: null } },
    }
    const failed = generateText(asked)
    await expect(failed).rejects.toBeInstanceOf(APICallError)
    await expect(failed).rejects.toMatchObject(expected)
    const errors: unknown[] = []
    await streamText({ ...asked, onError: ({ error }) => void errors.push(error) }).consumeStream()
    expect(errors).toMatchObject([expected])
    expect(errors[0]).toBeInstanceOf(APICallError)
    expect(counter.calls).toBe(2)
  })

  test('500 is retried maxRetries times, since this SDK ignores x-should-retry', async () => {
    const counter = countingFetch()
    const { provider } = await setUp({ fetch: counter.fetch })
    const failed = generateText({ model: provider('broken-model'), prompt: 'Hello', maxRetries: 1 })
    await expect(failed).rejects.toBeInstanceOf(RetryError)
    await expect(failed).rejects.toMatchObject({ lastError: { data: { error: { code: 'all_hosters_failed' } } } })
    expect(counter.calls).toBe(2)
  })

  test('a failure in the middle of a stream is an error and free', async () => {
    const { provider, customer } = await setUp()
    world.upstream.respondWith(sse(streamEvents({ text: 'one two' }).slice(0, 3), { ending: 'reset' }))
    const result = streamText({ model: provider('test-model'), prompt: 'Hello', onError() {} })
    let text = ''
    const errors: unknown[] = []
    for await (const part of result.fullStream) {
      if (part.type === 'text-delta') text += part.text
      if (part.type === 'error') errors.push(part.error)
    }
    expect(text).toBe('one two')
    expect(errors[0]).toBeInstanceOf(StreamProviderError)
    expect(errors).toEqual([expect.objectContaining({ type: 'upstream_error', code: 'stream_interrupted' })])
    expect(errors[0]).toHaveProperty('data.param', null)
    expect((await result.response).headers).toMatchObject(requestId)
    expect(await world.gateway.balanceNanos(customer)).toBe(5_000_000_000n)
  })
})
