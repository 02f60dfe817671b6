import { ContextOverflowError } from '@langchain/core/errors'
import { type AIMessageChunk, type BaseMessage, HumanMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { ChatOpenAI, type ChatOpenAIFields } from '@langchain/openai'
import { APIError, AuthenticationError, BadRequestError, InternalServerError, NotFoundError } from 'openai'
import { describe, expect, test } from 'vitest'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { answer, neverEnding, sse, stall, streamEvents, usageOf } from '../harness/scripted-upstream.ts'
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

async function setUp(fields: ChatOpenAIFields = {}, { creditNanos }: { creditNanos?: bigint } = {}) {
  const customer = await world.gateway.customer(creditNanos === undefined ? {} : { creditNanos })
  const { configuration, ...rest } = fields
  const model = new ChatOpenAI({
    model: 'test-model',
    apiKey: customer.key,
    maxRetries: 0,
    ...rest,
    configuration: { baseURL: world.baseUrl, ...configuration },
  })
  return { customer, model }
}

async function joined(chunks: AsyncIterable<AIMessageChunk>): Promise<AIMessageChunk> {
  let message: AIMessageChunk | undefined
  for await (const chunk of chunks) message = message?.concat(chunk) ?? chunk
  return message!
}

const weatherCall = { id: 'call_weather', name: 'get_weather', arguments: '{"place":"Bern"}' }
const getWeather = tool(async () => 'sunny', {
  name: weatherTool.name,
  description: weatherTool.description,
  schema: weatherTool.parameters,
})

test('invoke returns text, usage and id', async () => {
  const { model } = await setUp()
  world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
  const message = await model.invoke('Hello')
  expect(message.content).toBe('Good morning')
  expect(message.id).toMatch(/^chatcmpl-/)
  expect(message.response_metadata.finish_reason).toBe('stop')
  expect(message.usage_metadata).toMatchObject({ input_tokens: 9, output_tokens: 2, total_tokens: 11 })
})

test.each(['', '/'])('a base URL can end in "/v1%s"', async slash => {
  const { model } = await setUp({ configuration: { baseURL: `${world.baseUrl}${slash}` } })
  expect((await model.invoke('Hello')).content).not.toBe('')
})

test('a stream has usage, which LangChain always requests', async () => {
  const { model } = await setUp()
  world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
  const message = await joined(await model.stream('Hello'))
  expect(message.content).toBe('Good morning')
  expect(message.response_metadata.finish_reason).toBe('stop')
  expect(message.usage_metadata).toMatchObject({ input_tokens: 9, output_tokens: 2 })
})

// Not tested: invoke() with `streaming: true`, which counts tokens with a table that LangChain downloads from the internet.
test.each(['invoke', 'stream'] as const)('%s calls a tool and sends its result', async how => {
  const { model } = await setUp()
  world.upstream.respondWith(answer({ toolCalls: [weatherCall] }), answer({ text: 'It is sunny in Bern.' }))
  const withTools = model.bindTools([getWeather])
  const ask = async (messages: BaseMessage[]) =>
    how === 'invoke' ? await withTools.invoke(messages) : await joined(await withTools.stream(messages))
  const question = new HumanMessage('What is the weather in Bern?')
  const called = await ask([question])
  expect(called.tool_calls).toMatchObject([{ id: 'call_weather', name: 'get_weather', args: { place: 'Bern' } }])
  const result: BaseMessage = await getWeather.invoke({ ...called.tool_calls![0]!, type: 'tool_call' as const })
  const answered = await ask([question, called, result])
  expect(answered.content).toBe('It is sunny in Bern.')
  expect(world.upstream.requests.at(-1)!.body.messages).toMatchObject([
    { role: 'user' },
    { role: 'assistant', tool_calls: [{ id: 'call_weather' }] },
    { role: 'tool', tool_call_id: 'call_weather', content: 'sunny' },
  ])
})

test('structured outputs are forwarded and parsed', async () => {
  const { model } = await setUp()
  world.upstream.respondWith(answer({ text: '{"place":"Bern"}' }))
  const structured = model.withStructuredOutput(weatherTool.parameters, { name: 'place', method: 'jsonSchema' })
  expect(await structured.invoke('Where is the parliament?')).toEqual({ place: 'Bern' })
  expect(world.upstream.requests.at(-1)!.body.response_format).toMatchObject({
    type: 'json_schema',
    json_schema: { name: 'place', schema: weatherTool.parameters },
  })
})

// LangChain reads one chunk ahead and disconnects only after it, so this server must keep sending.
test('a stream that is left is billed for its text', async () => {
  const { model, customer } = await setUp()
  world.upstream.respondWith(neverEnding({ piece: 'more ' }))
  let text = ''
  for await (const chunk of await model.stream('Hello')) {
    text += chunk.content
    if (text.length > 10) break
  }
  expect(await world.upstream.requests.at(-1)!.aborted).toBe(true)
  const [row] = await world.gateway.settled(customer, 1)
  expect(row!.outcome).toBe('client_gone')
  expect(row!.output_tokens).toBeGreaterThanOrEqual(countTokens(text))
})

test('an aborted stream is billed for its text', async () => {
  const { model, customer } = await setUp()
  world.upstream.respondWith(stall({ pieces: ['one ', 'two ', 'three'] }))
  const abort = new AbortController()
  const reading = (async () => {
    for await (const chunk of await model.stream('Hello', { signal: abort.signal })) {
      if (chunk.content === 'three') abort.abort()
    }
  })()
  await expect(reading).rejects.toThrow(/abort/i)
  await expectLeftAndBilled(world, customer, 'one two three')
})

test('the routing fields are modelKwargs', async () => {
  const { model } = await setUp({ model: 'cloud-model', modelKwargs: { ...constraints } })
  const message = await model.invoke('Hello')
  expectConstraintsFollowed(world, String(message.response_metadata.model_name))
})

test.each(Object.entries(wrongConstraints))('an invalid %s is refused by name', async (param, value) => {
  const { model } = await setUp({ modelKwargs: { [param]: value } })
  const refused = model.invoke('Hello')
  await expect(refused).rejects.toBeInstanceOf(BadRequestError)
  await expect(refused).rejects.toMatchObject({
    code: 'invalid_value',
    param: expect.stringMatching(new RegExp(`^${param}\\b`)),
  })
})

describe('errors', () => {
  const readable = { message: expect.any(String), requestID: expect.stringMatching(/^[0-9a-f-]{36}$/) }

  test('401', async () => {
    const { model } = await setUp({ apiKey: 'sk-sy-wrong', maxRetries: 6 })
    const refused = model.invoke('Hello')
    await expect(refused).rejects.toBeInstanceOf(AuthenticationError)
    await expect(refused).rejects.toMatchObject({
      ...readable,
      status: 401,
      type: 'invalid_request_error',
      code: 'invalid_api_key',
      param: null,
      lc_error_code: 'MODEL_AUTHENTICATION',
    })
  })

  test('402 is not retried', async () => {
    const counter = countingFetch()
    const { model } = await setUp(
      { maxTokens: 100, maxRetries: 6, configuration: { fetch: counter.fetch } },
      { creditNanos: 1_000n },
    )
    const refused = model.invoke('Hello')
    await expect(refused).rejects.toBeInstanceOf(APIError)
    await expect(refused).rejects.toMatchObject({
      ...readable,
      status: 402,
      type: 'insufficient_quota',
      code: 'insufficient_credits',
      param: 'messages',
    })
    expect(counter.calls).toBe(1)
  })

  test('404', async () => {
    const { model } = await setUp({ model: 'no-model', maxRetries: 6 })
    const refused = model.invoke('Hello')
    await expect(refused).rejects.toBeInstanceOf(NotFoundError)
    await expect(refused).rejects.toMatchObject({
      ...readable,
      status: 404,
      type: 'invalid_request_error',
      code: 'model_not_found',
      param: 'model',
      lc_error_code: 'MODEL_NOT_FOUND',
    })
  })

  test('a prompt that is too long is a ContextOverflowError', async () => {
    const { model } = await setUp()
    const refused = model.invoke('Hello '.repeat(100_000))
    await expect(refused).rejects.toBeInstanceOf(ContextOverflowError)
    await expect(refused).rejects.toHaveProperty('cause.param', 'messages')
    await expect(refused).rejects.toHaveProperty('cause.code', 'context_length_exceeded')
  })

  test.each(['invoke', 'stream'] as const)('500: %s', async how => {
    const { model } = await setUp({ model: 'broken-model' })
    const failed = how === 'invoke' ? model.invoke('Hello') : model.stream('Hello')
    await expect(failed).rejects.toBeInstanceOf(InternalServerError)
    await expect(failed).rejects.toMatchObject({
      ...readable,
      status: 500,
      type: 'server_error',
      code: 'all_hosters_failed',
      param: null,
    })
  })

  test('500 is retried maxRetries times, since LangChain ignores x-should-retry', async () => {
    const counter = countingFetch()
    const { model } = await setUp({ model: 'broken-model', maxRetries: 1, configuration: { fetch: counter.fetch } })
    await expect(model.invoke('Hello')).rejects.toMatchObject({ code: 'all_hosters_failed' })
    expect(counter.calls).toBe(2)
  })

  test('a failure in the middle of a stream is an error and free', async () => {
    const { model, customer } = await setUp({ maxRetries: 6 })
    world.upstream.respondWith(sse(streamEvents({ text: 'one two' }).slice(0, 3), { ending: 'reset' }))
    let text = ''
    const reading = (async () => {
      for await (const chunk of await model.stream('Hello')) text += chunk.content
    })()
    await expect(reading).rejects.toBeInstanceOf(APIError)
    await expect(reading).rejects.toMatchObject({ ...readable, type: 'upstream_error', code: 'stream_interrupted' })
    expect(text).toBe('one two')
    expect(await world.gateway.balanceNanos(customer)).toBe(5_000_000_000n)
  })
})
