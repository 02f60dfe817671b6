import { describe, expect, test } from 'vitest'
import { countTokens } from '../../src/wire/tokens/count-tokens.ts'
import { startTestApp, testOffer } from '../harness/app.ts'
import { startScriptedUpstream } from '../harness/scripted-upstream.ts'
import { vendorAnswer } from '../harness/scripted-vendors.ts'
import { useResource } from '../harness/use-resource.ts'

// Rules of vendors over the whole gateway: test/dialects/vendor-rules.test.ts tries each rule in each dialect.

const world = useResource(
  async () => {
    const upstream = await startScriptedUpstream()
    const offer = testOffer(upstream.baseUrl, { modelId: 'responses' })
    const claude = testOffer(upstream.baseUrl, { modelId: 'claude' })
    const openrouter = testOffer(upstream.baseUrl, { modelId: 'chat' })
    const offers = [
      {
        ...offer,
        endpoint: { ...offer.endpoint, endpointId: 'responses', kind: 'cloud' as const },
        speaks: ['responses' as const],
      },
      { ...claude, endpoint: { ...claude.endpoint, endpointId: 'claude' }, speaks: ['messages' as const] },
      { ...openrouter, endpoint: { ...openrouter.endpoint, endpointId: 'chat', kind: 'cloud' as const } },
    ]
    return { upstream, gateway: await startTestApp({ offers }) }
  },
  async ({ upstream, gateway }) => {
    await gateway.close()
    await upstream.close()
  },
)

async function post(path: string, key: string, body: object) {
  const response = await fetch(`${world.gateway.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  return { headers: response.headers, status: response.status, body: (await response.json()) as never }
}

// farion1231/cc-switch issue 7103.
test('a limit below the lowest of the vendor is raised, and the answer is cut and billed at the limit of the client', async () => {
  const customer = await world.gateway.customer()
  const text = 'one two three four five six seven eight nine ten eleven twelve thirteen fourteen'
  world.upstream.respondWith(vendorAnswer('responses', { text, tokens: { input: 10, output: 16 } }))
  const { headers, body } = await post('/v1/chat/completions', customer.key, {
    model: 'responses',
    max_tokens: 5,
    messages: [{ role: 'user', content: 'Count.' }],
  })
  expect(world.upstream.requests.at(-1)!.body.max_output_tokens).toBe(16)
  expect(headers.get('x-switchyard-changed-fields')).toBe('max_output_tokens')
  expect(body).toMatchObject({ choices: [{ finish_reason: 'length' }], usage: { completion_tokens: 5 } })
  const [row] = await world.gateway.settled(customer, 1)
  expect(row!.output_tokens).toBe(5)
})

test('so is a stream', async () => {
  const customer = await world.gateway.customer()
  const text = 'one two three four five six seven eight nine ten'
  world.upstream.respondWith(vendorAnswer('responses', { text, tokens: { input: 10, output: 16 } }))
  const response = await fetch(`${world.gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: 'responses',
      max_tokens: 5,
      stream: true,
      messages: [{ role: 'user', content: 'Count.' }],
    }),
  })
  const events = await response.text()
  expect(events).toContain('"finish_reason":"length"')
  expect(events).not.toContain('seven')
  const [row] = await world.gateway.settled(customer, 1)
  expect(row!.output_tokens).toBe(5)
})

// The keywords that Anthropic refuses are in the description, so the answer may break them.
test('an answer that breaks the schema of the client says so in a header and on the receipt, and is charged', async () => {
  const customer = await world.gateway.customer()
  const schema = { type: 'object', properties: { score: { type: 'integer', minimum: 1 } }, required: ['score'] }
  const request = {
    model: 'claude',
    max_tokens: 50,
    messages: [{ role: 'user', content: 'Judge.' }],
    response_format: { type: 'json_schema', json_schema: { name: 'card', strict: true, schema } },
  }
  world.upstream.respondWith(vendorAnswer('messages', { text: '{"score":0}' }))
  const whole = await post('/v1/chat/completions', customer.key, request)
  expect(whole.body).toMatchObject({ choices: [{ message: { content: '{"score":0}' } }] })
  expect(whole.headers.get('x-switchyard-schema-violation')).toBe('#/score minimum')
  world.upstream.respondWith(vendorAnswer('messages', { text: '{"score":0}' }))
  const response = await fetch(`${world.gateway.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...request, stream: true }),
  })
  expect(await response.text()).toContain('score')
  expect(response.headers.get('x-switchyard-schema-violation')).toBe(null)
  world.upstream.respondWith(vendorAnswer('messages', { text: '{"score":2}' }))
  const kept = await post('/v1/chat/completions', customer.key, request)
  expect(kept.headers.get('x-switchyard-schema-violation')).toBe(null)
  const rows = await world.gateway.settled(customer, 3)
  expect(rows.every(({ cost_nanos: cost }) => BigInt(cost) > 0n)).toBe(true)
  for (const [{ headers }, violation] of [
    [whole, '#/score minimum'],
    [response, '#/score minimum'],
    [kept, null],
  ] as const) {
    const id = headers.get('x-request-id')
    const receipt = await fetch(`${world.gateway.url}/v1/usage/requests/${id}`, {
      headers: { authorization: `Bearer ${customer.key}` },
    })
    expect(await receipt.json()).toMatchObject({ schema_violation: violation })
  }
})

// OpenRouter wants its reasoning_details back for Gemini's models.
test('the details of reasoning of a server of chat come back to it from a client of messages', async () => {
  const customer = await world.gateway.customer()
  const details = [
    { type: 'reasoning.text', text: 'Seek', format: 'google-gemini-v1', index: 0 },
    { type: 'reasoning.encrypted', data: 'RU5D', id: 'tool_w1', format: 'google-gemini-v1', index: 1 },
  ]
  const call = { id: 'tool_w1', type: 'function', function: { name: 'look', arguments: '{}' } }
  const message = {
    role: 'assistant',
    content: null,
    reasoning: 'Seek',
    reasoning_details: details,
    tool_calls: [call],
  }
  world.upstream.respondWith((_request, response) => {
    response.setHeader('content-type', 'application/json')
    response.end(
      JSON.stringify({
        id: 'x',
        object: 'chat.completion',
        created: 1,
        model: 'm',
        choices: [{ index: 0, message, finish_reason: 'tool_calls' }],
        usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
      }),
    )
  })
  const request = {
    model: 'chat',
    max_tokens: 99,
    thinking: { type: 'adaptive' },
    tools: [{ name: 'look', input_schema: { type: 'object' } }],
  }
  const question = { role: 'user', content: 'What is there?' }
  const first = await post('/v1/messages', customer.key, { ...request, messages: [question] })
  const { content } = first.body as { content: object[] }
  const result = { type: 'tool_result', tool_use_id: 'tool_w1', content: 'a ship' }
  await post('/v1/messages', customer.key, {
    ...request,
    messages: [question, { role: 'assistant', content }, { role: 'user', content: [result] }],
  })
  const sent = world.upstream.requests.at(-1)!.body.messages!.find(({ role }) => role === 'assistant')!
  expect(sent.reasoning_details).toContainEqual(
    expect.objectContaining({ type: 'reasoning.encrypted', data: 'RU5D', format: 'google-gemini-v1' }),
  )
})

describe('more stop sequences than a cloud of chat takes', () => {
  const stop_sequences = ['<1>', '<2>', '<3>', '<4>', '<5>']
  const text = `one two three <5> ${'and more '.repeat(200)}`
  const request = { model: 'chat', max_tokens: 900, stop_sequences, messages: [{ role: 'user', content: 'Count.' }] }
  const counted = countTokens('one two three ')

  // The server is left at the sequence, so a whole answer is read from a stream.
  test('cut a whole answer, which is charged as served', async () => {
    const customer = await world.gateway.customer()
    world.upstream.respondWith(vendorAnswer('chat', { text }))
    const { headers, body } = await post('/v1/messages', customer.key, request)
    expect(body).toMatchObject({
      content: [{ type: 'text', text: 'one two three ' }],
      stop_reason: 'stop_sequence',
      stop_sequence: '<5>',
      usage: { output_tokens: counted },
    })
    expect(headers.get('x-switchyard-changed-fields')).toBe('stop')
    expect(world.upstream.requests.at(-1)!.body).toMatchObject({ stop: stop_sequences.slice(0, 4), stream: true })
    const [row] = await world.gateway.settled(customer, 1)
    expect(row).toMatchObject({ output_tokens: counted, outcome: 'served', success: true })
  })

  test('cut a stream, which is charged as served', async () => {
    const customer = await world.gateway.customer()
    world.upstream.respondWith(vendorAnswer('chat', { text }))
    const response = await fetch(`${world.gateway.url}/v1/messages`, {
      method: 'POST',
      headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ ...request, stream: true }),
    })
    const events = await response.text()
    expect(events).toContain('"stop_reason":"stop_sequence","stop_sequence":"<5>"')
    expect(events).not.toContain('more')
    const [row] = await world.gateway.settled(customer, 1)
    expect(row).toMatchObject({ output_tokens: counted, outcome: 'served', success: true })
  })

  test('may leave nothing of an answer, which is free', async () => {
    const customer = await world.gateway.customer()
    world.upstream.respondWith(vendorAnswer('chat', { text: '<5> one' }))
    const { status, body } = await post('/v1/messages', customer.key, request)
    expect([status, body]).toMatchObject([200, { content: [], stop_reason: 'stop_sequence' }])
    const [row] = await world.gateway.settled(customer, 1)
    expect(row!.output_tokens).toBe(0)
  })

  test('do not change an answer without them', async () => {
    const customer = await world.gateway.customer()
    world.upstream.respondWith(vendorAnswer('chat', { text: 'one <' }))
    const { body } = await post('/v1/messages', customer.key, request)
    expect(body).toMatchObject({
      content: [{ text: 'one <' }],
      stop_reason: 'end_turn',
      usage: { input_tokens: 10, output_tokens: 7 },
    })
  })

  test('are refused where the gateway would have to look for too many', async () => {
    const customer = await world.gateway.customer()
    const many = Array.from({ length: 261 }, (_, at) => `<${at}>`)
    const { status, body } = await post('/v1/messages', customer.key, { ...request, stop_sequences: many })
    expect([status, JSON.stringify(body)]).toEqual([400, expect.stringContaining('261 stop sequences (at most 260)')])
  })
})

// anomalyco/opencode issue 4909, zed-industries/zed issue 42393.
test('more tools than a cloud of chat or responses takes go to other servers only', async () => {
  const customer = await world.gateway.customer()
  const tools = Array.from({ length: 129 }, (_, at) => ({ name: `tool_${at}`, input_schema: { type: 'object' } }))
  const request = (model: string, count: number) =>
    post('/v1/messages', customer.key, {
      ...{ model, max_tokens: 9, tools: tools.slice(0, count) },
      messages: [{ role: 'user', content: 'Hello!' }],
    })
  for (const model of ['chat', 'responses']) {
    const refused = await request(model, 129)
    expect(refused.status).toBe(400)
    expect(JSON.stringify(refused.body)).toContain('the request has 129 tools (at most 128)')
  }
  for (const [model, dialect, count] of [
    ['chat', 'chat', 128],
    ['claude', 'messages', 129],
  ] as const) {
    world.upstream.respondWith(vendorAnswer(dialect, { text: 'Hi' }))
    expect((await request(model, count)).status).toBe(200)
    expect(world.upstream.requests.at(-1)!.body.tools).toHaveLength(count)
  }
})
