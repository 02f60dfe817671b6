import Anthropic from '@anthropic-ai/sdk'
import { describe, expect, test } from 'vitest'
import { expectLeftAndBilled, useClientWorld, weatherTool } from '../clients/client-world.ts'
import type { TestCustomer } from '../harness/app.ts'
import { answer, contentChunk, sse, usageOf } from '../harness/scripted-upstream.ts'

const world = useClientWorld()
const hello = { model: 'test-model', max_tokens: 64, messages: [{ role: 'user' as const, content: 'Hello' }] }
const weather = { name: weatherTool.name, description: weatherTool.description, input_schema: weatherTool.parameters }

const clientOf = (customer: TestCustomer) =>
  new Anthropic({ apiKey: customer.key, authToken: null, baseURL: world.gateway.url, maxRetries: 0 })
async function setUp(options: Parameters<typeof world.gateway.customer>[0] = {}) {
  const customer = await world.gateway.customer(options)
  return { customer, client: clientOf(customer) }
}
const lastBody = () => world.upstream.requests.at(-1)!.body
const post = (customer: TestCustomer, body: object | string, headers: Record<string, string> = {}) =>
  fetch(`${world.baseUrl}/messages?beta=true`, {
    method: 'POST',
    headers: { 'x-api-key': customer.key, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

/** A body as Claude Code sends it, shortened. */
const claudeCode = {
  model: 'claude/test-model',
  max_tokens: 64_000,
  thinking: { type: 'adaptive', display: 'omitted' },
  output_config: { effort: 'max' },
  context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
  metadata: { user_id: 'user_1' },
  system: [
    { type: 'text', text: 'x-anthropic-billing-header: cc_version=2.1; cch=1a2b3;' },
    { type: 'text', text: 'You are a coding agent.', cache_control: { type: 'ephemeral' } },
  ],
  tools: [{ ...weather, defer_loading: true, eager_input_streaming: true }],
  messages: [
    { role: 'user', content: [{ type: 'text', text: 'Hello', cache_control: { type: 'ephemeral' } }] },
    { role: 'system', content: 'The date has changed.' },
  ],
  a_field_of_next_week: { type: 'unknown' },
}

describe('a whole message', () => {
  test('has the text, the billed usage and the request id', async () => {
    const { customer, client } = await setUp()
    const usage = { ...usageOf(9, 2), prompt_tokens_details: { cached_tokens: 4 } }
    world.upstream.respondWith(answer({ text: 'Good morning', usage }))
    const { data, response } = await client.messages.create(hello).withResponse()
    expect(data).toMatchObject({
      type: 'message',
      model: 'test-model',
      content: [{ type: 'text', text: 'Good morning' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 5, cache_read_input_tokens: 4, output_tokens: 2, cost_usd: 0.000013 },
    })
    expect(response.headers.get('request-id')).toBe(response.headers.get('x-request-id'))
    expect(data.id).toBe(`msg_${response.headers.get('request-id')}`)
    const [row] = await world.gateway.settled(customer, 1)
    expect(row).toMatchObject({ cost_nanos: 13_000n, input_tokens: 9, output_tokens: 2 })
  })

  test('is answered for a body of Claude Code', async () => {
    const { customer } = await setUp()
    const betas = {
      'anthropic-version': '2023-06-01',
      'anthropic-beta': 'context-management-2025-06-27,new-2026-11-01',
    }
    const response = await post(customer, claudeCode, betas)
    expect([response.status, await response.json()]).toMatchObject([200, { model: 'test-model' }])
    const { messages, reasoning_effort: effort } = lastBody()
    expect(effort).toBe('high')
    expect(messages![0]).toEqual({ role: 'system', content: 'You are a coding agent.' })
    expect(JSON.stringify(messages!.slice(1))).toContain('The date has changed.')
    expect(messages!.slice(1).map(({ role }) => role)).not.toContain('system')
    expect(response.headers.get('x-switchyard-dropped-fields')).toContain('cache_control')
  })

  test('is refused if the money covers fewer than 4,096 tokens', async () => {
    const { client } = await setUp({ creditNanos: 1_000_000n })
    const error = await client.messages
      .create({ ...hello, max_tokens: 64_000 }, { timeout: 60_000 })
      .catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(Anthropic.APIError)
    expect(error).toMatchObject({
      status: 402,
      type: 'billing_error',
      error: { type: 'error', error: { code: 'insufficient_credits' }, request_id: expect.any(String) },
    })
  })
})

describe('a streamed message', () => {
  test('is the same message', async () => {
    const { client } = await setUp()
    world.upstream.respondWith(answer({ text: 'Good morning', usage: usageOf(9, 2) }))
    const message = await client.messages.stream(hello).finalMessage()
    expect(message).toMatchObject({
      content: [{ type: 'text', text: 'Good morning' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 9, output_tokens: 2 },
    })
  })

  test('that breaks ends with an error event, and is free', async () => {
    const { customer, client } = await setUp()
    world.upstream.respondWith(sse([contentChunk('Good')], { ending: 'reset' }))
    const error = await client.messages
      .stream(hello)
      .finalMessage()
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ error: { error: { code: 'stream_interrupted' } } })
    const [row] = await world.gateway.settled(customer, 1)
    expect(row!.cost_nanos).toBe(0n)
  })

  test('that the client leaves is billed for what it got', async () => {
    const { customer, client } = await setUp()
    world.upstream.respondWith(sse([contentChunk('Good '), contentChunk('morning')], { ending: 'stall' }))
    let text = ''
    for await (const event of client.messages.stream(hello)) {
      if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') text += event.delta.text
      if (text === 'Good morning') break
    }
    await expectLeftAndBilled(world, customer, 'Good morning')
  })
})

test('a tool call and its result make two turns', async () => {
  const { client } = await setUp()
  const toolCalls = [{ id: 'call_1', name: 'get_weather', arguments: '{"place":"Bern"}' }]
  world.upstream.respondWith(answer({ toolCalls, text: '' }))
  const first = await client.messages.stream({ ...hello, tools: [weather] }).finalMessage()
  expect(first).toMatchObject({
    stop_reason: 'tool_use',
    content: [{ type: 'tool_use', id: 'call_1', name: 'get_weather', input: { place: 'Bern' } }],
  })
  await client.messages.create({
    ...hello,
    tools: [weather],
    messages: [
      ...hello.messages,
      { role: 'assistant', content: first.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'call_1', content: '12 degrees' }] },
    ],
  })
  expect(lastBody().messages).toMatchObject([
    { role: 'user', content: 'Hello' },
    { role: 'assistant', tool_calls: [{ id: 'call_1', function: { name: 'get_weather' } }] },
    { role: 'tool', tool_call_id: 'call_1', content: '12 degrees' },
  ])
})

test('errors have the form of Anthropic, also before the body is read', async () => {
  const { customer } = await setUp()
  const refusals = [
    await post({ ...customer, key: 'sk-wrong' }, hello),
    await post(customer, '{'),
    await post(customer, { ...hello, max_tokens: undefined }),
    await fetch(`${world.baseUrl}/messages`, { headers: { 'x-api-key': customer.key } }),
    await fetch(`${world.baseUrl}/messages/batches`, { headers: { 'x-api-key': customer.key } }),
  ]
  const found = await Promise.all(
    refusals.map(async response => {
      const {
        type,
        error,
        request_id: id,
      } = (await response.json()) as Record<string, never> & {
        error: { type: string }
      }
      expect(id).toBe(response.headers.get('request-id'))
      return [response.status, type, error.type]
    }),
  )
  expect(found).toEqual([
    [401, 'error', 'authentication_error'],
    [400, 'error', 'invalid_request_error'],
    [400, 'error', 'invalid_request_error'],
    [405, 'error', 'invalid_request_error'],
    [404, 'error', 'not_found_error'],
  ])
})

test('count_tokens counts without a charge, and input_tokens counts the same', async () => {
  const { customer, client } = await setUp()
  const before = world.upstream.requests.length
  const { max_tokens: _, ...prompt } = hello
  const { input_tokens: count } = await client.messages.countTokens({
    ...prompt,
    model: 'claude/test-model',
    tools: [weather],
  })
  const { input_tokens: fewer } = await client.messages.countTokens(prompt)
  expect(fewer).toBeGreaterThan(0)
  expect(count).toBeGreaterThan(fewer + 10)
  const response = await fetch(`${world.baseUrl}/responses/input_tokens`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'test-model', input: 'Hello' }),
  })
  expect(await response.json()).toEqual({ object: 'response.input_tokens', input_tokens: expect.any(Number) })
  expect(world.upstream.requests).toHaveLength(before)
  expect(await world.gateway.balanceNanos(customer)).toBe(5_000_000_000n)
  const unknown = await client.messages.countTokens({ ...prompt, model: 'unknown' }).catch((thrown: unknown) => thrown)
  expect(unknown).toMatchObject({ status: 404, type: 'not_found_error', message: expect.stringContaining('`unknown`') })
})

test('models are listed in the form of Anthropic, with names that Claude Code accepts', async () => {
  const { client } = await setUp()
  const { data, has_more } = await client.models.list()
  expect(has_more).toBe(false)
  expect(data.map(({ id }) => id)).toEqual(expect.arrayContaining(['test-model', 'claude/test-model']))
  expect(data[0]).toMatchObject({ type: 'model', max_input_tokens: 32_768, max_tokens: 8_192 })
})
