import { createAnthropic } from '@ai-sdk/anthropic'
import { createOpenResponses } from '@ai-sdk/open-responses'
import { createOpenAI } from '@ai-sdk/openai'
import { APICallError, generateText, isStepCount, jsonSchema, Output, streamText, tool } from 'ai'
import { describe, expect, test } from 'vitest'
import type { TestCustomer } from '../harness/app.ts'
import { answer, contentChunk, sse, stall, usageOf } from '../harness/scripted-upstream.ts'
import { expectLeftAndBilled, useClientWorld, useUpRequests, weatherTool } from './client-world.ts'

// The AI SDK's own providers, each with the endpoint that it uses by default.

const world = useClientWorld()

const providers = {
  '@ai-sdk/openai': (apiKey: string) => createOpenAI({ apiKey, baseURL: world.baseUrl })('test-model'),
  '@ai-sdk/openai, chat': (apiKey: string) => createOpenAI({ apiKey, baseURL: world.baseUrl }).chat('test-model'),
  '@ai-sdk/anthropic': (apiKey: string) => createAnthropic({ apiKey, baseURL: world.baseUrl })('test-model'),
  '@ai-sdk/open-responses': (apiKey: string) =>
    createOpenResponses({ name: 'switchyard', apiKey, url: `${world.baseUrl}/responses` })('test-model'),
}

const weatherCall = { id: 'call_weather', name: 'get_weather', arguments: '{"place":"Bern"}' }
const placeSchema = jsonSchema<{ place: string }>(weatherTool.parameters)

describe.each(Object.entries(providers))('%s', (name, modelOf) => {
  async function setUp(options: Parameters<typeof world.gateway.customer>[0] = {}) {
    const customer = await world.gateway.customer(options)
    return { customer, model: modelOf(customer.key) }
  }

  const expectBilled = async (customer: TestCustomer) =>
    expect(await world.gateway.settled(customer, 1)).toMatchObject([
      { cost_nanos: 13_000n, input_tokens: 9, output_tokens: 2, usage_source: 'upstream' },
    ])

  test('generateText returns text and usage', async () => {
    const { customer, model } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const result = await generateText({ model, prompt: 'Hello' })
    expect(result).toMatchObject({ text: 'Good morning', finishReason: 'stop' })
    expect(result.usage).toMatchObject({ inputTokens: 9, outputTokens: 2 })
    await expectBilled(customer)
  })

  test('streamText returns text and usage', async () => {
    const { customer, model } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const result = streamText({ model, prompt: 'Hello' })
    const pieces: string[] = []
    for await (const piece of result.textStream) pieces.push(piece)
    expect(pieces).toEqual(['Good', ' morning'])
    expect(await result.finishReason).toBe('stop')
    expect(await result.usage).toMatchObject({ inputTokens: 9, outputTokens: 2 })
    await expectBilled(customer)
  })

  test.each([
    ['generateText', generateText],
    ['streamText', streamText],
  ] as const)('%s calls a tool and sends its result', async (_name, run) => {
    const { model } = await setUp()
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
      model,
      prompt: 'What is the weather in Bern?',
      tools: { get_weather },
      stopWhen: isStepCount(3),
    })
    expect(await result.text).toBe('It is sunny in Bern.')
    expect(places).toEqual(['Bern'])
    expect(world.upstream.requests.at(-1)!.body.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ id: 'call_weather', function: { name: 'get_weather' } }] },
      { role: 'tool', tool_call_id: 'call_weather', content: 'sunny' },
    ])
  })

  test('structured outputs are forwarded and parsed', async () => {
    const { model } = await setUp()
    // For a model that it does not know, the provider of Anthropic asks for a tool call.
    const asTool = name === '@ai-sdk/anthropic'
    const call = { id: 'call_json', name: 'json', arguments: '{"place":"Bern"}' }
    world.upstream.respondWith(asTool ? answer({ toolCalls: [call] }) : answer({ text: '{"place":"Bern"}' }))
    const result = await generateText({
      model,
      prompt: 'Where is the parliament?',
      output: Output.object({ schema: placeSchema }),
    })
    expect(result.output).toEqual({ place: 'Bern' })
  })

  test('an aborted stream is billed for its text', async () => {
    const { customer, model } = await setUp()
    world.upstream.respondWith(stall({ pieces: ['one ', 'two ', 'three'] }))
    const abort = new AbortController()
    const result = streamText({ model, prompt: 'Hello', abortSignal: abort.signal })
    for await (const part of result.fullStream) {
      if (part.type === 'text-delta' && part.text.endsWith('three')) abort.abort()
    }
    await expectLeftAndBilled(world, customer, 'one two three')
  })

  test('a failure in the middle of a stream is an error and free', async () => {
    const { customer, model } = await setUp()
    world.upstream.respondWith(sse([contentChunk('Good')], { ending: 'reset' }))
    const errors: unknown[] = []
    await streamText({ model, prompt: 'Hello', onError: ({ error }) => void errors.push(error) }).consumeStream()
    expect(errors.length).toBeGreaterThan(0)
    expect(await world.gateway.settled(customer, 1)).toMatchObject([{ cost_nanos: 0n }])
  })

  test('errors are readable', async () => {
    const poor = await setUp({ creditNanos: 1_000n })
    const limited = await setUp()
    await useUpRequests(world, limited.customer, 'day')
    const readable = async (model: ReturnType<typeof modelOf>) => {
      const error = await generateText({ model, prompt: 'Hello', maxRetries: 0 }).catch((thrown: unknown) => thrown)
      if (!APICallError.isInstance(error)) throw error
      // The message of @ai-sdk/open-responses is only the status text if `param` is null, as OpenAI sends it too.
      const message = name === '@ai-sdk/open-responses' ? JSON.parse(error.responseBody!).error.message : error.message
      return [error.statusCode, message]
    }
    expect(await readable(modelOf('sk-sy-wrong'))).toEqual([401, expect.stringContaining('API key')])
    expect(await readable(poor.model)).toEqual([402, expect.stringContaining('credit')])
    expect(await readable(limited.model)).toEqual([429, expect.stringContaining('requests per day')])
  })
})
