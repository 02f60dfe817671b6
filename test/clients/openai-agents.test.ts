import {
  Agent,
  type ApplyPatchOperation,
  applyPatchTool,
  type Computer,
  computerTool,
  OpenAIProvider,
  Runner,
  shellTool,
  tool,
} from '@openai/agents'
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

// Models of other vendors do not know the tools of OpenAI's: a server of chat gets functions.
describe.each([false, true])('tools of the SDK that it runs itself, stream: %s', stream => {
  async function run(tools: Agent['tools'], name: string, args: object): Promise<readonly { content: unknown }[]> {
    const customer = await world.gateway.customer()
    const modelProvider = new OpenAIProvider({ apiKey: customer.key, baseURL: world.baseUrl, useResponses: true })
    const runner = new Runner({ modelProvider, tracingDisabled: true })
    const agent = new Agent({ name: 'Coder', model: 'test-model', tools })
    const call = { id: 'call_1', name, arguments: JSON.stringify(args) }
    world.upstream.respondWith(answer({ toolCalls: [call] }), answer({ text: 'Done.' }))
    if (stream) {
      const result = await runner.run(agent, 'Do it.', { stream: true })
      await result.completed
      expect(result.finalOutput).toBe('Done.')
    } else expect((await runner.run(agent, 'Do it.')).finalOutput).toBe('Done.')
    const { messages, tools: sent } = world.upstream.requests.at(-1)!.body
    expect(sent).toMatchObject([{ type: 'function', function: { name } }])
    return messages!.slice(2) as { content: unknown }[]
  }

  test('apply_patch changes files', async () => {
    const done: ApplyPatchOperation[] = []
    const note = async (operation: ApplyPatchOperation) => {
      done.push(operation)
      return { output: `changed ${operation.path}` }
    }
    const editor = { createFile: note, updateFile: note, deleteFile: note }
    const operation = { type: 'update_file', path: 'a.ts', diff: '@@\n-a\n+b\n' }
    const [result] = await run([applyPatchTool({ editor })], 'apply_patch', operation)
    expect(done).toEqual([operation])
    expect(result).toMatchObject({ role: 'tool', tool_call_id: 'call_1', content: 'changed a.ts' })
  })

  test('shell runs commands', async () => {
    const ran: unknown[] = []
    const shell = {
      run: async (action: { commands: string[] }) => {
        ran.push(...action.commands)
        return { output: [{ stdout: 'a-file.txt', stderr: '', outcome: { type: 'exit' as const, exitCode: 0 } }] }
      },
    }
    const [result] = await run([shellTool({ shell })], 'shell', { commands: ['ls', 'pwd'] })
    expect(ran).toEqual(['ls', 'pwd'])
    expect(result!.content).toContain('a-file.txt')
  })

  test('computer uses a screen', async () => {
    const clicks: unknown[] = []
    const note =
      (name: string) =>
      async (...args: unknown[]) => {
        clicks.push([name, ...args.slice(0, 2)])
      }
    const computer: Computer = {
      ...{ environment: 'browser', dimensions: [800, 600], screenshot: async () => 'iVBORw0KGgo=' },
      ...{ click: note('click'), doubleClick: note('doubleClick'), scroll: note('scroll'), type: note('type') },
      ...{ wait: note('wait'), move: note('move'), keypress: note('keypress'), drag: note('drag') },
    }
    const sent = await run([computerTool({ computer })], 'computer', {
      actions: [{ type: 'click', x: 4, y: 5, button: 'left' }],
    })
    expect(clicks).toContainEqual(['click', 4, 5])
    expect(JSON.stringify(sent)).toContain('data:image/png;base64,iVBORw0KGgo=')
  })
})
