import { Agent, OpenAIProvider, Runner, tool } from '@openai/agents'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { answer, stall, usageOf } from '../harness/scripted-upstream.ts'
import { vendorAnswer } from '../harness/scripted-vendors.ts'
import { expectLeftAndBilled, useClientWorld, useUpRequests } from './client-world.ts'

const world = useClientWorld()

const weatherCall = { id: 'call_weather', name: 'get_weather', arguments: '{"place":"Bern"}' }

describe.each([
  ['responses, the default', true],
  ['chat completions', false],
])('OpenAI Agents SDK with %s', (_name, useResponses) => {
  function runnerOf(apiKey: string) {
    const modelProvider = new OpenAIProvider({ apiKey, baseURL: world.baseUrl, useResponses })
    // Traces go to OpenAI, with OpenAI's key.
    return new Runner({ modelProvider, tracingDisabled: true })
  }
  async function setUp(options: Parameters<typeof world.gateway.customer>[0] = {}) {
    const customer = await world.gateway.customer(options)
    return { customer, runner: runnerOf(customer.key) }
  }
  const agent = new Agent({ name: 'Helper', instructions: 'Be brief.', model: 'test-model' })

  function weatherAgent() {
    const places: string[] = []
    const get_weather = tool({
      name: 'get_weather',
      description: 'The weather of a place',
      parameters: z.object({ place: z.string() }),
      execute: async ({ place }) => {
        places.push(place)
        return 'sunny'
      },
    })
    return { places, agent: new Agent({ name: 'Weather', model: 'test-model', tools: [get_weather] }) }
  }

  test('an answer has text and usage, and is billed', async () => {
    const { customer, runner } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const result = await runner.run(agent, 'Hello')
    expect(result.finalOutput).toBe('Good morning')
    expect(result.state.usage).toMatchObject({ requests: 1, inputTokens: 9, outputTokens: 2, totalTokens: 11 })
    expect(world.upstream.requests.at(-1)!.body.messages).toEqual([
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello' },
    ])
    expect(await world.gateway.settled(customer, 1)).toMatchObject([{ cost_nanos: 13_000n }])
  })

  test.each([false, true])('a tool is called and its result is sent, stream: %s', async stream => {
    const { runner } = await setUp()
    const { agent, places } = weatherAgent()
    world.upstream.respondWith(answer({ toolCalls: [weatherCall] }), answer({ text: 'It is sunny in Bern.' }))
    const question = 'What is the weather in Bern?'
    let text = ''
    if (stream) {
      const result = await runner.run(agent, question, { stream: true })
      for await (const piece of result.toTextStream()) text += piece
      await result.completed
      expect(result.finalOutput).toBe(text)
    } else text = (await runner.run(agent, question)).finalOutput!
    expect(text).toBe('It is sunny in Bern.')
    expect(places).toEqual(['Bern'])
    expect(world.upstream.requests.at(-1)!.body.messages).toMatchObject([
      { role: 'user' },
      { role: 'assistant', tool_calls: [{ id: 'call_weather', function: { name: 'get_weather' } }] },
      { role: 'tool', tool_call_id: 'call_weather', content: 'sunny' },
    ])
  })

  test('the reasoning before a call goes back with its result', async () => {
    const { runner } = await setUp()
    const { agent } = weatherAgent()
    const calls = [{ id: 'call_weather', name: 'get_weather', args: { place: 'Bern' } }]
    const thinking = { text: 'Ask the tool.', seal: '' }
    world.upstream.respondWith(vendorAnswer('chat', { thinking, calls }), answer({ text: 'It is sunny in Bern.' }))
    const modelSettings = { reasoning: { summary: 'auto' as const } }
    await runner.run(agent.clone({ modelSettings }), 'What is the weather in Bern?')
    const [, message] = world.upstream.requests.at(-1)!.body.messages!
    // The model of chat completions reads only the field `reasoning`, which OpenRouter sends.
    expect([message!.role, message!.reasoning_content]).toEqual([
      'assistant',
      useResponses ? 'Ask the tool.' : undefined,
    ])
  })

  test('an aborted stream is billed for its text', async () => {
    const { customer, runner } = await setUp()
    world.upstream.respondWith(stall({ pieces: ['one ', 'two ', 'three'] }))
    const abort = new AbortController()
    const result = await runner.run(agent, 'Hello', { stream: true, signal: abort.signal })
    let text = ''
    for await (const piece of result.toTextStream()) {
      text += piece
      if (text.endsWith('three')) abort.abort()
    }
    await result.completed.catch(() => {})
    await expectLeftAndBilled(world, customer, 'one two three')
  })

  test('an answer can have a schema', async () => {
    const { runner } = await setUp()
    world.upstream.respondWith(answer({ text: '{"place":"Bern"}' }))
    const placed = new Agent({ name: 'Places', model: 'test-model', outputType: z.object({ place: z.string() }) })
    expect((await runner.run(placed, 'Where is the parliament?')).finalOutput).toEqual({ place: 'Bern' })
    expect(world.upstream.requests.at(-1)!.body.response_format).toMatchObject({ type: 'json_schema' })
  })

  test('errors are those of the OpenAI SDK', async () => {
    const poor = await setUp({ creditNanos: 1_000n })
    const limited = await setUp()
    await useUpRequests(world, limited.customer, 'day')
    const errorOf = (runner: Runner) => runner.run(agent, 'Hello').catch((thrown: unknown) => thrown)
    const wrongKey = await errorOf(runnerOf('sk-sy-wrong'))
    expect(wrongKey).toBeInstanceOf(OpenAI.AuthenticationError)
    expect(wrongKey).toMatchObject({ status: 401, code: 'invalid_api_key' })
    expect(await errorOf(poor.runner)).toMatchObject({
      status: 402,
      code: 'insufficient_credits',
      message: expect.stringContaining('credit'),
    })
    expect(await errorOf(limited.runner)).toMatchObject({
      status: 429,
      code: 'daily_limit_exceeded',
      type: useResponses ? 'usage_limit_reached' : 'rate_limit_error',
    })
  })
})
