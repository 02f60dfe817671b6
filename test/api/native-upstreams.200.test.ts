import Anthropic from '@anthropic-ai/sdk'
import { GoogleGenAI } from '@google/genai'
import OpenAI from 'openai'
import { describe, expect, test } from 'vitest'
import { costNanos } from '../../src/base/domain/money.ts'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { startTestApp, testOffer } from '../harness/app.ts'
import { rawResponse, startScriptedUpstream } from '../harness/scripted-upstream.ts'
import { type NativeDialect, vendorAnswer, vendorEvents } from '../harness/scripted-vendors.ts'
import { useResource } from '../harness/use-resource.ts'

// Clients of four dialects with servers of three dialects, over the whole gateway.

const dialects: readonly NativeDialect[] = ['messages', 'gemini', 'responses']
const world = useResource(
  async () => {
    const upstream = await startScriptedUpstream()
    const offers = dialects.map(dialect => {
      const offer = testOffer(upstream.baseUrl, { modelId: dialect })
      return { ...offer, endpoint: { ...offer.endpoint, endpointId: dialect }, speaks: [dialect] }
    })
    return { upstream, offers, gateway: await startTestApp({ offers }) }
  },
  async ({ upstream, gateway }) => {
    await gateway.close()
    await upstream.close()
  },
)

const lookParameters = { type: 'object' as const, properties: { at: { type: 'string' } } }
const calls = [{ id: 'call_1', name: 'look', args: { at: 'sea' } }]
const seal = Buffer.from('a seal').toString('base64')

async function setUp() {
  const customer = await world.gateway.customer()
  const baseURL = `${world.gateway.url}/v1`
  return {
    customer,
    anthropic: new Anthropic({ apiKey: customer.key, authToken: null, baseURL: world.gateway.url, maxRetries: 0 }),
    openai: new OpenAI({ apiKey: customer.key, baseURL, maxRetries: 0 }),
    google: new GoogleGenAI({ apiKey: customer.key, vertexai: false, httpOptions: { baseUrl: world.gateway.url } }),
  }
}

describe.each(dialects)('with a server of %s', dialect => {
  test('a client of messages runs a tool loop, and is billed for the reported tokens', async () => {
    const { customer, anthropic } = await setUp()
    const request = {
      model: dialect,
      max_tokens: 64,
      thinking: { type: 'adaptive' as const, display: 'summarized' as const },
      tools: [{ name: 'look', input_schema: lookParameters }],
    }
    const question = { role: 'user' as const, content: 'What is there?' }
    world.upstream.respondWith(vendorAnswer(dialect, { thinking: { text: 'Hm.', seal }, calls }))
    const first = await anthropic.messages.stream({ ...request, messages: [question] }).finalMessage()
    expect(first.content.at(-1)).toMatchObject({ type: 'tool_use', name: 'look', input: { at: 'sea' } })
    expect(first.stop_reason).toBe('tool_use')
    expect(first.usage).toMatchObject({ input_tokens: 10, cache_read_input_tokens: 20, output_tokens: 7 })
    world.upstream.respondWith(vendorAnswer(dialect, { text: 'A ship.' }))
    const call = first.content.at(-1) as Anthropic.ToolUseBlock
    const result = { type: 'tool_result' as const, tool_use_id: call.id, content: 'a ship' }
    const messages = [
      question,
      { role: 'assistant' as const, content: first.content },
      { role: 'user' as const, content: [result] },
    ]
    const last = await anthropic.messages.create({ ...request, messages })
    expect(last.content.at(-1)).toMatchObject({ type: 'text', text: 'A ship.' })
    // The server got its own seal back.
    expect(world.upstream.requests.at(-1)!.rawBody).toContain(seal)
    const rows = await world.gateway.settled(customer, 2)
    const { price } = world.offers[0]!
    expect(rows.map(row => [row.input_tokens, row.output_tokens, row.cost_nanos])).toEqual(
      rows.map(() => [30, 7, costNanos(price, 30, 7)]),
    )
  })

  test('a client of gemini that sends no thoughts back runs a tool loop', async () => {
    const { customer, google } = await setUp()
    const config = { tools: [{ functionDeclarations: [{ name: 'look', parametersJsonSchema: lookParameters }] }] }
    const question = { role: 'user', parts: [{ text: 'What is there?' }] }
    world.upstream.respondWith(vendorAnswer(dialect, { thinking: { text: 'Hm.', seal }, calls }))
    const first = await google.models.generateContent({ model: dialect, contents: [question], config })
    expect(first.functionCalls).toMatchObject([{ name: 'look', args: { at: 'sea' } }])
    expect(first.usageMetadata).toMatchObject({ promptTokenCount: 30, cachedContentTokenCount: 20 })
    world.upstream.respondWith(vendorAnswer(dialect, { text: 'A ship.' }))
    const answered = { id: first.functionCalls![0]!.id!, name: 'look', response: { output: 'a ship' } }
    const contents = [
      question,
      first.candidates![0]!.content!,
      { role: 'user', parts: [{ functionResponse: answered }] },
    ]
    const last = await google.models.generateContent({ model: dialect, contents, config })
    expect(last.text).toBe('A ship.')
    // The server got its own seal back.
    expect(world.upstream.requests.at(-1)!.rawBody).toContain(seal)
    const rows = await world.gateway.settled(customer, 2)
    expect(rows.map(row => [row.input_tokens, row.output_tokens])).toEqual(rows.map(() => [30, 7]))
  })

  test('a client of responses runs a tool loop', async () => {
    const { openai } = await setUp()
    const tools = [{ type: 'function' as const, name: 'look', parameters: lookParameters, strict: false }]
    const request = { model: dialect, tools, include: ['reasoning.encrypted_content' as const], store: false }
    const question = { role: 'user' as const, content: 'What is there?' }
    world.upstream.respondWith(vendorAnswer(dialect, { thinking: { text: 'Hm.', seal }, calls }))
    const first = await openai.responses.create({ ...request, input: [question] })
    expect(first.output.at(-1)).toMatchObject({ type: 'function_call', name: 'look', arguments: '{"at":"sea"}' })
    expect(first.usage).toMatchObject({
      input_tokens: 30,
      output_tokens: 7,
      input_tokens_details: { cached_tokens: 20 },
    })
    world.upstream.respondWith(vendorAnswer(dialect, { text: 'A ship.' }))
    const output = { type: 'function_call_output' as const, call_id: 'call_1', output: 'a ship' }
    const input = [question, ...first.output, output] as OpenAI.Responses.ResponseInput
    const last = await openai.responses.stream({ ...request, input }).finalResponse()
    expect(last.output_text).toBe('A ship.')
    const { rawBody } = world.upstream.requests.at(-1)!
    expect([rawBody.includes(seal), rawBody.includes('a ship')]).toEqual([true, true])
  })

  test('a client of chat streams', async () => {
    const { openai } = await setUp()
    world.upstream.respondWith(vendorAnswer(dialect, { text: 'Blue and wide.' }))
    const messages = [{ role: 'user' as const, content: 'Hello' }]
    const stream = openai.chat.completions.stream({
      model: dialect,
      messages,
      seed: 5,
      stream_options: { include_usage: true },
    })
    const { choices, usage } = await stream.finalChatCompletion()
    expect(choices[0]!.message.content).toBe('Blue and wide.')
    expect(usage).toMatchObject({ prompt_tokens: 30, completion_tokens: 7 })
  })

  test('a client that leaves a stream pays for the text that it got', async () => {
    const { customer, openai } = await setUp()
    const events = vendorEvents(dialect, { text: 'Ferries leave at six. Never' })
    const start = events.slice(
      0,
      events.findIndex(event => event.includes('Never')),
    )
    world.upstream.respondWith(rawResponse(start.join(''), { framing: 'chunked', ending: 'stall' }))
    const stream = openai.chat.completions.stream({ model: dialect, messages: [{ role: 'user', content: 'When?' }] })
    let text = ''
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? ''
      if (text.trimEnd().endsWith('six.')) break
    }
    const [row] = await world.gateway.settled(customer, 1)
    const outputTokens = countTokens(text)
    expect(row).toMatchObject({ outcome: 'client_gone', output_tokens: outputTokens })
    expect(row!.cost_nanos).toBe(costNanos(world.offers[0]!.price, row!.input_tokens, outputTokens))
  })

  test('a request that its dialect cannot express is refused, and says why', async () => {
    const { openai } = await setUp()
    const messages = [{ role: 'user' as const, content: 'Hello' }]
    const error = await openai.chat.completions
      .create({ model: dialect, messages, n: 2 })
      .catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(OpenAI.APIError)
    expect((error as Error).message).toContain('a feature the request uses')
  })
})

test('a request of Claude Code reaches Anthropic without the fields of betas, and the answer names them', async () => {
  const { customer } = await setUp()
  world.upstream.respondWith(vendorAnswer('messages', { text: 'Hello.' }))
  const response = await fetch(`${world.gateway.url}/v1/messages?beta=true`, {
    method: 'POST',
    headers: { 'x-api-key': customer.key, 'content-type': 'application/json', 'anthropic-beta': 'new-2026-11-01' },
    body: JSON.stringify({
      model: 'messages',
      max_tokens: 64,
      output_config: { effort: 'max' },
      context_management: { edits: [{ type: 'clear_thinking_20251015', keep: 'all' }] },
      a_field_of_next_week: 1,
      system: [{ type: 'text', text: 'You are a coding agent.' }],
      messages: [
        { role: 'user', content: 'Hello' },
        { role: 'system', content: 'The date has changed.' },
      ],
    }),
  })
  expect(response.status).toBe(200)
  const { body, headers } = world.upstream.requests.at(-1)!
  expect(body).toEqual({
    model: 'upstream-messages',
    max_tokens: 64,
    stream: false,
    output_config: { effort: 'max' },
    system: [{ type: 'text', text: 'You are a coding agent.' }],
    messages: [
      { role: 'user', content: 'Hello' },
      { role: 'user', content: 'The date has changed.' },
    ],
  })
  expect(headers['anthropic-beta']).toBe(undefined)
  const dropped = response.headers.get('x-switchyard-dropped-fields')
  expect(dropped).toContain('context_management')
  expect(dropped).toContain('a_field_of_next_week')
})

test('the receipt names the same dropped fields as the header of the answer', async () => {
  const { customer } = await setUp()
  world.upstream.respondWith(vendorAnswer('messages', { text: 'A ship.' }))
  const response = await world.gateway.chat(customer, {
    model: 'messages',
    messages: [{ role: 'user', content: 'What is there?' }],
    seed: 5,
    service_tier: 'priority',
  })
  await response.arrayBuffer()
  const named = response.headers.get('x-switchyard-dropped-fields')!.split(', ')
  expect(named.toSorted()).toEqual(['seed', 'service_tier'])
  const id = response.headers.get('x-request-id')
  const receipt = (await (await world.gateway.get(customer, `/v1/usage/requests/${id}`)).json()) as object
  expect(receipt).toMatchObject({ dropped_fields: named })
})
