import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenResponses } from '@ai-sdk/open-responses'
import { createOpenAI } from '@ai-sdk/openai'
import * as ai7 from 'ai'
import * as ai6 from 'ai6'
import { createOpenAI as createOpenAI3 } from 'openai-provider3'
import { describe, expect, test } from 'vitest'
import type { TestCustomer } from '../harness/app.ts'
import { answer, contentChunk, sse, stall, usageOf } from '../harness/scripted-upstream.ts'
import { vendorAnswer } from '../harness/scripted-vendors.ts'
import { expectLeftAndBilled, useClientWorld, useUpRequests, weatherTool } from './client-world.ts'

// The AI SDK's own providers, each with the endpoint that it uses by default. CopilotKit's agent calls the gateway through
// `ai` 6 and version 3 of the provider of OpenAI: see the decision of 2026-11-25 about its package.

const world = useClientWorld()

type Sdk = Pick<typeof ai7, 'APICallError' | 'generateText' | 'jsonSchema' | 'Output' | 'streamText' | 'tool'> & {
  readonly stopAfter: (typeof ai7)['isStepCount']
}
const sdk7: Sdk = { ...ai7, stopAfter: ai7.isStepCount }
/** The functions that the tests call have the same parameters in both versions, but not the same types. */
const sdk6 = { ...ai6, stopAfter: ai6.stepCountIs } as unknown as Sdk

interface Provider {
  readonly sdk: Sdk
  readonly modelOf: (apiKey: string) => ai7.LanguageModel
  /** Makes the provider ask for reasoning, and send it back. */
  readonly reasoningOptions: NonNullable<Parameters<typeof ai7.generateText>[0]['providerOptions']>
}

const openaiReasoning = { openai: { store: false, forceReasoning: true, reasoningSummary: 'auto' } }

const providers: Record<string, Provider> = {
  '@ai-sdk/openai': {
    sdk: sdk7,
    modelOf: apiKey => createOpenAI({ apiKey, baseURL: world.baseUrl })('test-model'),
    reasoningOptions: openaiReasoning,
  },
  '@ai-sdk/openai 3, as in CopilotKit': {
    sdk: sdk6,
    modelOf: apiKey => createOpenAI3({ apiKey, baseURL: world.baseUrl })('test-model') as unknown as ai7.LanguageModel,
    reasoningOptions: openaiReasoning,
  },
  '@ai-sdk/openai, chat': {
    sdk: sdk7,
    modelOf: apiKey => createOpenAI({ apiKey, baseURL: world.baseUrl }).chat('test-model'),
    reasoningOptions: {},
  },
  '@ai-sdk/anthropic': {
    sdk: sdk7,
    modelOf: apiKey => createAnthropic({ apiKey, baseURL: world.baseUrl })('test-model'),
    reasoningOptions: { anthropic: { thinking: { type: 'enabled', budgetTokens: 2_048 } } },
  },
  '@ai-sdk/open-responses': {
    sdk: sdk7,
    modelOf: apiKey =>
      createOpenResponses({ name: 'switchyard', apiKey, url: `${world.baseUrl}/responses` })('test-model'),
    reasoningOptions: { switchyard: { reasoningSummary: 'auto' } },
  },
  '@ai-sdk/google': {
    sdk: sdk7,
    modelOf: apiKey => createGoogleGenerativeAI({ apiKey, baseURL: `${world.gateway.url}/v1beta` })('test-model'),
    reasoningOptions: { google: { thinkingConfig: { includeThoughts: true } } },
  },
}

const weatherCall = { id: 'call_weather', name: 'get_weather', arguments: '{"place":"Bern"}' }

describe.each(Object.entries(providers))('%s', (name, { sdk, modelOf, reasoningOptions }) => {
  const { APICallError, generateText, jsonSchema, Output, stopAfter, streamText, tool } = sdk
  const placeSchema = jsonSchema<{ place: string }>(weatherTool.parameters)
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
      stopWhen: stopAfter(3),
    })
    expect(await result.text).toBe('It is sunny in Bern.')
    expect(places).toEqual(['Bern'])
    expect(world.upstream.requests.at(-1)!.body.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ id: 'call_weather', function: { name: 'get_weather' } }] },
      // The provider of Google sends an object with the name of the tool.
      { role: 'tool', tool_call_id: 'call_weather', content: expect.stringMatching(/^(sunny|\{.*"sunny"\})$/) },
    ])
  })

  test.each([
    ['generateText', generateText],
    ['streamText', streamText],
  ] as const)('%s sends the reasoning before a call back', async (_name, run) => {
    const { model } = await setUp()
    const calls = [{ id: 'call_weather', name: 'get_weather', args: { place: 'Bern' } }]
    world.upstream.respondWith(
      vendorAnswer('chat', { thinking: { text: 'Ask the tool.', seal: '' }, calls }),
      answer({ text: 'It is sunny in Bern.' }),
    )
    const result = await run({
      model,
      prompt: 'What is the weather in Bern?',
      tools: { get_weather: tool({ inputSchema: placeSchema, execute: async () => 'sunny' }) },
      stopWhen: stopAfter(3),
      providerOptions: reasoningOptions,
    })
    expect(await result.text).toBe('It is sunny in Bern.')
    const [, message] = world.upstream.requests.at(-1)!.body.messages!
    // The provider of chat completions reads no reasoning.
    const reasoning = name.endsWith('chat') ? undefined : 'Ask the tool.'
    expect([message!.role, message!.reasoning_content]).toEqual(['assistant', reasoning])
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
