import { type AIMessageChunk, type BaseMessage, HumanMessage } from '@langchain/core/messages'
import { tool } from '@langchain/core/tools'
import { ChatOpenAI } from '@langchain/openai'
import OpenAI from 'openai'
import OpenAI5 from 'openai5'
import OpenAI6 from 'openai6'
import { describe, expect, test } from 'vitest'
import { answer, stall, usageOf } from '../harness/scripted-upstream.ts'
import { vendorAnswer } from '../harness/scripted-vendors.ts'
import { expectLeftAndBilled, useClientWorld, weatherTool } from './client-world.ts'

// POST /v1/responses with the versions of OpenAI's SDK, and with LangChain, which uses it for OpenAI's newer models.

const world = useClientWorld()
const versions: [name: string, Client: typeof OpenAI][] = [
  ['openai 7', OpenAI],
  ['openai 6', OpenAI6 as unknown as typeof OpenAI],
  ['openai 5', OpenAI5 as unknown as typeof OpenAI],
]
const calling = vendorAnswer('chat', {
  thinking: { text: 'Ask the tool.', seal: '' },
  calls: [{ id: 'call_weather', name: 'get_weather', args: { place: 'Bern' } }],
})

/** Expects that the server got the turn with its reasoning back, and the result of the call. */
function expectLoop() {
  expect(world.upstream.requests.at(-1)!.body.messages).toMatchObject([
    { role: 'user' },
    { role: 'assistant', reasoning_content: 'Ask the tool.', tool_calls: [{ id: 'call_weather' }] },
    { role: 'tool', tool_call_id: 'call_weather', content: 'sunny' },
  ])
}

/** `output_text` of the response, which version 5 leaves out where it assembles a stream. */
function textOf({ output }: OpenAI.Responses.Response): string {
  const parts = output.flatMap(item => (item.type === 'message' ? item.content : []))
  return parts.map(part => (part.type === 'output_text' ? part.text : '')).join('')
}

describe.each(versions)('%s', (_name, Client) => {
  async function setUp(creditNanos = 5_000_000_000n) {
    const customer = await world.gateway.customer({ creditNanos })
    return { customer, client: new Client({ apiKey: customer.key, baseURL: world.baseUrl, maxRetries: 0 }) }
  }
  const hello = { model: 'test-model', input: 'Hello' }

  test('create returns text, usage and cost', async () => {
    const { customer, client } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const response = await client.responses.create(hello)
    expect([response.output_text, response.status]).toEqual(['Good morning', 'completed'])
    expect(response.usage).toMatchObject({ input_tokens: 9, output_tokens: 2, cost_usd: 0.000013 })
    expect(await world.gateway.settled(customer, 1)).toMatchObject([{ cost_nanos: 13_000n }])
  })

  test('.stream() assembles the response', async () => {
    const { client } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const stream = client.responses.stream(hello)
    const pieces: string[] = []
    for await (const event of stream) if (event.type === 'response.output_text.delta') pieces.push(event.delta)
    expect(pieces).toEqual(['Good', ' morning'])
    expect(textOf(await stream.finalResponse())).toBe('Good morning')
  })

  test.each([false, true])('a call and its reasoning go back with the result, stream: %s', async stream => {
    const { client } = await setUp()
    world.upstream.respondWith(calling, answer({ text: 'It is sunny in Bern.' }))
    const request = {
      model: 'test-model',
      tools: [{ type: 'function' as const, strict: false, ...weatherTool }],
      reasoning: { summary: 'auto' as const },
      store: false,
    }
    const ask = (input: OpenAI.Responses.ResponseInput) =>
      stream
        ? client.responses.stream({ ...request, input }).finalResponse()
        : client.responses.create({ ...request, input })
    const question = { role: 'user' as const, content: 'What is the weather in Bern?' }
    const { output } = await ask([question])
    const call = output.at(-1) as OpenAI.Responses.ResponseFunctionToolCall
    expect(JSON.parse(call.arguments)).toEqual({ place: 'Bern' })
    const result = { type: 'function_call_output' as const, call_id: call.call_id, output: 'sunny' }
    const last = await ask([question, ...(output as OpenAI.Responses.ResponseInput), result])
    expect(textOf(last)).toBe('It is sunny in Bern.')
    expectLoop()
  })

  test('an aborted stream is billed for its text', async () => {
    const { customer, client } = await setUp()
    world.upstream.respondWith(stall({ pieces: ['one ', 'two ', 'three'] }))
    for await (const event of await client.responses.create({ ...hello, stream: true }))
      if (event.type === 'response.output_text.delta' && event.delta === 'three') break
    await expectLeftAndBilled(world, customer, 'one two three')
  })

  test('errors are readable', async () => {
    const { client } = await setUp(1_000n)
    const thrownBy = (asking: Promise<unknown>) => asking.catch((thrown: unknown) => thrown)
    expect(await thrownBy(client.responses.create(hello))).toMatchObject({ status: 402, code: 'insufficient_credits' })
    const unknown = await thrownBy(client.responses.create({ ...hello, model: 'no-such-model' }))
    expect(unknown).toBeInstanceOf(Client.NotFoundError)
    const stateful = await thrownBy(client.responses.create({ ...hello, previous_response_id: 'resp_1' }))
    expect(stateful).toMatchObject({ status: 400, param: 'previous_response_id' })
  })
})

describe('LangChain', () => {
  async function setUp() {
    const customer = await world.gateway.customer()
    const model = new ChatOpenAI({
      model: 'test-model',
      apiKey: customer.key,
      maxRetries: 0,
      useResponsesApi: true,
      zdrEnabled: true,
      reasoning: { summary: 'auto' },
      configuration: { baseURL: world.baseUrl },
    })
    return { customer, model }
  }

  async function joined(chunks: AsyncIterable<AIMessageChunk>): Promise<AIMessageChunk> {
    let message: AIMessageChunk | undefined
    for await (const chunk of chunks) message = message?.concat(chunk) ?? chunk
    return message!
  }

  test.each(['invoke', 'stream'] as const)('%s returns text and usage', async how => {
    const { customer, model } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const message = how === 'invoke' ? await model.invoke('Hello') : await joined(await model.stream('Hello'))
    expect(message.text).toBe('Good morning')
    expect(message.usage_metadata).toMatchObject({ input_tokens: 9, output_tokens: 2 })
    expect(await world.gateway.settled(customer, 1)).toMatchObject([{ cost_nanos: 13_000n }])
  })

  test.each(['invoke', 'stream'] as const)('%s sends a call and its reasoning back with the result', async how => {
    const { model } = await setUp()
    world.upstream.respondWith(calling, answer({ text: 'It is sunny in Bern.' }))
    const getWeather = tool(async () => 'sunny', { name: 'get_weather', schema: weatherTool.parameters })
    const withTools = model.bindTools([getWeather])
    const ask = async (messages: BaseMessage[]) =>
      how === 'invoke' ? await withTools.invoke(messages) : await joined(await withTools.stream(messages))
    const question = new HumanMessage('What is the weather in Bern?')
    const called = await ask([question])
    const result: BaseMessage = await getWeather.invoke({ ...called.tool_calls![0]!, type: 'tool_call' as const })
    expect((await ask([question, called, result])).text).toBe('It is sunny in Bern.')
    expectLoop()
  })
})
