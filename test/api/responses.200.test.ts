import OpenAI from 'openai'
import { describe, expect, test, vi } from 'vitest'
import { TextBuffer } from '../../src/base/runtime/counted-memory.ts'
import { expectLeftAndBilled, useClientWorld, useUpRequests, weatherTool } from '../clients/client-world.ts'
import type { TestCustomer } from '../harness/app.ts'
import { answer, contentChunk, sse, streamEvents, usageOf } from '../harness/scripted-upstream.ts'

const world = useClientWorld()
const hello = { model: 'test-model', input: 'Hello' }

const clientOf = (customer: TestCustomer) => new OpenAI({ apiKey: customer.key, baseURL: world.baseUrl, maxRetries: 0 })
async function setUp(options: Parameters<typeof world.gateway.customer>[0] = {}) {
  const customer = await world.gateway.customer(options)
  return { customer, client: clientOf(customer) }
}
const lastBody = () => world.upstream.requests.at(-1)!.body
const errorOf = (promise: PromiseLike<unknown>) =>
  Promise.resolve(promise).then(
    () => expect.unreachable(),
    (error: InstanceType<typeof OpenAI.APIError>) => error,
  )

const namespaced = {
  type: 'namespace',
  name: 'mcp__files',
  description: 'Files',
  tools: [{ type: 'function', name: 'read', parameters: { type: 'object', properties: {} }, strict: false }],
}
const exec = { type: 'custom' as const, name: 'exec', description: 'Runs a command' }

describe('a whole response', () => {
  test('has the text, the billed usage and an id that leads to the receipt', async () => {
    const { customer, client } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const { data, response } = await client.responses.create(hello).withResponse()
    expect(data).toMatchObject({ object: 'response', status: 'completed', model: 'test-model', store: false })
    expect(data.output_text).toBe('Good morning')
    expect(data.usage).toMatchObject({ input_tokens: 9, output_tokens: 2, total_tokens: 11, cost_usd: 0.000013 })
    const requestId = response.headers.get('x-request-id')
    expect(data.id).toBe(`resp_${requestId}`)
    const [row] = await world.gateway.settled(customer, 1)
    expect(row).toMatchObject({ cost_nanos: 13_000n, input_tokens: 9, output_tokens: 2 })
    const receipt = await fetch(`${world.baseUrl}/usage/requests/${data.id}`, {
      headers: { authorization: `Bearer ${customer.key}` },
    })
    expect(await receipt.json()).toMatchObject({ id: requestId })
  })

  test('without a limit may be as long as the model generates', async () => {
    const { client } = await setUp()
    await client.responses.create(hello)
    const { max_tokens: sent } = lastBody()
    await client.responses.create({ ...hello, max_output_tokens: 1_000_000 })
    expect(lastBody().max_tokens).toBe(sent)
    expect(sent).toBeGreaterThan(4_096)
  })

  test('is refused if the money covers fewer than 4,096 tokens, and shortened otherwise', async () => {
    const poor = await setUp({ creditNanos: 1_000_000n })
    expect(await errorOf(poor.client.responses.create(hello))).toMatchObject({
      status: 402,
      code: 'insufficient_credits',
    })
    const enough = await setUp({ creditNanos: 25_000_000n })
    const { response } = await enough.client.responses.create(hello).withResponse()
    expect(response.status).toBe(200)
    expect(lastBody().max_tokens).toBeGreaterThanOrEqual(4_096)
  })

  test('ends as incomplete at a limit', async () => {
    const { client } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good', finishReason: 'length' }))
    const response = await client.responses.create({ ...hello, max_output_tokens: 16 })
    expect(response).toMatchObject({ status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } })
  })
})

describe('a streamed response', () => {
  test('numbers its events and ends with the same response', async () => {
    const { client } = await setUp()
    const usage = usageOf(9, 2)
    world.upstream.respondWith(answer({ text: 'Good morning', usage }))
    const types: string[] = []
    const numbers: number[] = []
    const stream = client.responses.stream(hello)
    for await (const event of stream) {
      types.push(event.type)
      numbers.push(event.sequence_number)
    }
    expect(types.slice(0, 2)).toEqual(['response.created', 'response.in_progress'])
    expect(types.at(-1)).toBe('response.completed')
    expect(numbers).toEqual(numbers.map((_, index) => index))
    const final = await stream.finalResponse()
    expect(final.output_text).toBe('Good morning')
    expect(final.usage).toMatchObject({ input_tokens: 9, output_tokens: 2, cost_usd: 0.000013 })
  })

  test('that breaks ends with response.failed, and is free', async () => {
    const { customer, client } = await setUp()
    world.upstream.respondWith(sse([contentChunk('Good')], { ending: 'reset' }))
    const events: { type: string; response?: unknown }[] = []
    for await (const event of await client.responses.create({ ...hello, stream: true })) events.push(event)
    expect(events.at(-1)).toMatchObject({
      type: 'response.failed',
      response: { status: 'failed', error: { code: 'stream_interrupted', message: expect.any(String) } },
    })
    const [row] = await world.gateway.settled(customer, 1)
    expect(row!.cost_nanos).toBe(0n)
  })

  test('that the client leaves is billed for what it got', async () => {
    const { customer, client } = await setUp()
    const events = [contentChunk('Good '), contentChunk('morning')]
    world.upstream.respondWith(sse(events, { ending: 'stall' }))
    const stream = await client.responses.create({ ...hello, stream: true })
    let text = ''
    for await (const event of stream) {
      if (event.type === 'response.output_text.delta') text += event.delta
      if (text === 'Good morning') break
    }
    await expectLeftAndBilled(world, customer, 'Good morning')
  })
})

describe('tools', () => {
  test('of namespaces and free text go to the server as functions, and come back as they were', async () => {
    const { client } = await setUp()
    const toolCalls = [
      { id: 'call_1', name: 'mcp__files__read', arguments: '{"path":"a"}' },
      { id: 'call_2', name: 'exec', arguments: '{"input":"ls -l"}' },
    ]
    const tools = [namespaced, exec, { type: 'web_search' as const }] as unknown as OpenAI.Responses.Tool[]
    world.upstream.respondWith(answer({ toolCalls, text: '' }))
    const first = await client.responses.create({ ...hello, tools })
    const sent = lastBody().tools as { type: string; function: { name: string } }[]
    expect(sent.map(tool => [tool.type, tool.function.name])).toEqual([
      ['function', 'mcp__files__read'],
      ['function', 'exec'],
    ])
    const calls = first.output.filter(({ type }) => type !== 'message')
    expect(calls).toMatchObject([
      { type: 'function_call', call_id: 'call_1', namespace: 'mcp__files', name: 'read', arguments: '{"path":"a"}' },
      { type: 'custom_tool_call', call_id: 'call_2', name: 'exec', input: 'ls -l' },
    ])

    world.upstream.respondWith(answer({ toolCalls, text: '' }))
    const streamed = await client.responses.stream({ ...hello, tools }).finalResponse()
    expect(streamed.output.filter(({ type }) => type !== 'message')).toMatchObject(
      calls.map(({ id: _, ...call }) => call),
    )

    const input = [
      { role: 'user', content: 'Hello' },
      ...first.output,
      { type: 'function_call_output', call_id: 'call_1', output: 'text of a' },
      { type: 'custom_tool_call_output', call_id: 'call_2', output: 'total 0' },
    ] as OpenAI.Responses.ResponseInput
    await client.responses.create({ ...hello, input, tools })
    expect(lastBody().messages).toMatchObject([
      { role: 'user', content: 'Hello' },
      {
        role: 'assistant',
        tool_calls: [
          { id: 'call_1', function: { name: 'mcp__files__read', arguments: '{"path":"a"}' } },
          { id: 'call_2', function: { name: 'exec', arguments: '{"input":"ls -l"}' } },
        ],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'text of a' },
      { role: 'tool', tool_call_id: 'call_2', content: 'total 0' },
    ])
  })

  test('that a server would run are named as dropped', async () => {
    const { client } = await setUp()
    const { response } = await client.responses.create({ ...hello, tools: [{ type: 'web_search' }] }).withResponse()
    expect(response.headers.get('x-switchyard-dropped-fields')).toBe('tools.web_search')
    const choice = { tools: [{ type: 'web_search' as const }], tool_choice: 'required' as const }
    expect(await errorOf(client.responses.create({ ...hello, ...choice }))).toMatchObject({
      status: 400,
      param: 'tool_choice',
    })
  })

  test('have the names that the SDK parses', async () => {
    const { client } = await setUp()
    world.upstream.respondWith(
      answer({ toolCalls: [{ id: 'call_1', name: 'get_weather', arguments: '{"place":"Bern"}' }], text: '' }),
    )
    const response = await client.responses.parse({
      ...hello,
      tools: [{ type: 'function', ...weatherTool, strict: true }],
    })
    expect(response.output.at(-1)).toMatchObject({ type: 'function_call', parsed_arguments: { place: 'Bern' } })
  })
})

test('reasoning comes back to the server that does not seal it', async () => {
  const { client } = await setUp()
  const delta = { role: 'assistant', reasoning_content: 'Be kind.', content: 'Hi' }
  const [first, ...rest] = streamEvents({ text: 'x' }) as [{ choices: [object] }, ...object[]]
  const thought = { ...first, choices: [{ ...first.choices[0], delta }] }
  world.upstream.respondWith(sse([thought, ...rest.slice(-2)]))
  const response = await client.responses.stream({ ...hello, reasoning: { summary: 'auto' } }).finalResponse()
  expect(response.output[0]).toMatchObject({ type: 'reasoning', summary: [{ text: 'Be kind.' }] })
  const input = [...response.output, { role: 'user', content: 'Again' }] as OpenAI.Responses.ResponseInput
  await client.responses.create({ ...hello, input: [{ role: 'user', content: 'Hello' }, ...input] })
  expect(lastBody().messages![1]).toMatchObject({ role: 'assistant', reasoning_content: 'Be kind.' })
})

describe('a request is refused', () => {
  test.each([
    ['previous_response_id', { previous_response_id: 'resp_1' }],
    ['conversation', { conversation: 'conv_1' }],
    ['background', { background: true }],
    ['prompt', { prompt: { id: 'pmpt_1' } }],
    ['input[0]', { input: [{ type: 'item_reference', id: 'msg_1' }] }],
    ['input', { input: undefined }],
  ])('with the field %s', async (param, fields) => {
    const { client } = await setUp()
    const error = await errorOf(client.responses.create({ ...hello, ...fields } as typeof hello))
    expect(error).toMatchObject({ status: 400, param, type: 'invalid_request_error' })
  })

  test('but not for a reference to reasoning, nor for store', async () => {
    const { client } = await setUp()
    const input = [
      { role: 'user', content: 'Hello' },
      { type: 'item_reference', id: 'rs_1' },
    ] as OpenAI.Responses.ResponseInput
    expect(await client.responses.create({ ...hello, input, store: true })).toMatchObject({ status: 'completed' })
  })

  test('at a daily limit in the form at which Codex stops', async () => {
    const { customer } = await setUp()
    await useUpRequests(world, customer, 'day')
    const response = await fetch(`${world.baseUrl}/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
      body: JSON.stringify(hello),
    })
    const { error } = (await response.json()) as { error: { type: string; reset_at: string; resets_at: number } }
    expect(response.status).toBe(429)
    expect(error).toMatchObject({ type: 'usage_limit_reached', code: 'daily_limit_exceeded' })
    expect(error.resets_at).toBe(Date.parse(error.reset_at) / 1000)
    expect(response.headers.get('x-should-retry')).toBe('false')
  })
})

test('an internal error after the first text ends the stream that began, and not another one', async () => {
  const { customer } = await setUp()
  for (const path of ['responses', 'messages']) {
    world.upstream.respondWith(answer({ text: 'Good morning', usage: null }))
    const billing = vi.spyOn(TextBuffer.prototype, 'toString').mockImplementationOnce(() => {
      throw new Error('planted')
    })
    const response = await fetch(`${world.baseUrl}/${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        model: 'test-model',
        stream: true,
        ...(path === 'responses'
          ? { input: 'Hello' }
          : { max_tokens: 64, messages: [{ role: 'user', content: 'Hello' }] }),
      }),
    })
    const types = [...(await response.text()).matchAll(/^event: (.+)$/gm)].map(([, type]) => type)
    billing.mockRestore()
    const [first, last] = path === 'responses' ? ['response.created', 'response.failed'] : ['message_start', 'error']
    expect(types.filter(type => type === first)).toHaveLength(1)
    expect([types[0], types.at(-1)]).toEqual([first, last])
    expect(types).toContain(path === 'responses' ? 'response.output_text.delta' : 'content_block_delta')
  }
})
