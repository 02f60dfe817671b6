import { describe, expect, test } from 'vitest'
import type { TokenUsage } from '../../src/base/domain/completion.ts'
import { testOffer } from '../harness/app.ts'
import { readEventStream } from '../harness/event-stream.ts'
import { answer, completion, startScriptedUpstream, status, usageOf } from '../harness/scripted-upstream.ts'
import { useCustomer, useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => {
  const { dialect } = testOffer(upstream.baseUrl).endpoint
  return {
    yaml: 'chat: { forward_fields: { local: [priority], cloud: [best_of] } }',
    offers: [
      testOffer(upstream.baseUrl, { endpoint: { apiKey: 'sk-upstream-secret' } }),
      testOffer(upstream.baseUrl, {
        modelId: 'odd/dialect',
        endpoint: {
          endpointId: 'odd',
          apiKey: 'odd-secret',
          dialect: {
            ...dialect,
            maxTokensField: 'max_completion_tokens',
            developerToSystem: true,
            streamOptions: false,
            forwardFields: ['vendor_only'],
            dropFields: ['logprobs', 'seed'],
            keyHeader: 'api-key',
          },
        },
      }),
    ],
  }
})
const customer = useCustomer(gateway)

const messages = [{ role: 'user', content: 'Hello' }]
const hello = { model: 'test-model', messages }

/** The request that the upstream receives for this body. */
async function forwarded(body: object, caller = customer) {
  const sentBefore = upstream.requests.length
  const response = await gateway.chat(caller, body)
  expect(response.status).toBe(200)
  await response.text()
  return upstream.requests[sentBefore]!
}

test('a JSON answer has the OpenAI shape, is billed by the reported usage, and is exact to the nano-USD', async () => {
  const fresh = await gateway.customer()
  upstream.respondWith(answer({ text: 'Hello there', usage: usageOf(11, 7), id: 'theirs', model: 'theirs' }))
  const before = Math.floor(Date.now() / 1000)
  const response = await gateway.chat(fresh, hello)
  expect(response.status).toBe(200)
  const body = (await response.json()) as { created: number }
  expect(body).toEqual({
    id: `chatcmpl-${response.headers.get('x-request-id')}`,
    object: 'chat.completion',
    created: expect.any(Number),
    model: 'test-model',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'Hello there', refusal: null },
        logprobs: null,
        finish_reason: 'stop',
      },
    ],
    usage: { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18, cost_usd: 0.000025 },
  })
  expect(body.created).toBeGreaterThanOrEqual(before)
  expect(await gateway.balanceNanos(fresh)).toBe(5_000_000_000n - 11_000n - 14_000n)
  expect(await gateway.usage(fresh)).toMatchObject([
    { success: true, outcome: 'served', provider: 'local', cost_nanos: 25_000n },
  ])
})

test('headers carry the provider, the processing time and the remaining limits', async () => {
  const fresh = await gateway.customer({ limits: { requestsPerMinute: 50, requestsPerDay: 500 } })
  for (const stream of [false, true]) {
    const { headers } = await gateway.chat(fresh, { ...hello, stream })
    expect(headers.get('x-request-id')).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}$/)
    expect(headers.get('openai-processing-ms')).toMatch(/^\d+$/)
    expect(headers.get('x-ratelimit-limit-requests')).toBe('50')
    expect(headers.get('x-ratelimit-limit-requests-day')).toBe('500')
    expect(headers.get('x-ratelimit-reset-requests')).toMatch(/^\d+s$/)
    expect(headers.get('x-ratelimit-remaining-requests-day')).toMatch(/^49[89]$/)
    expect(headers.get('x-switchyard-provider')).toBe('local')
    expect(headers.get('x-switchyard-hoster')).toBeNull()
    expect(headers.get('x-switchyard-cost-usd')).toBe(stream ? null : '0.00002')
  }
  const { headers } = await gateway.chat(fresh, { ...hello, tier: 'x' })
  expect(headers.get('openai-processing-ms')).toMatch(/^\d+$/)
  expect(headers.get('x-ratelimit-limit-requests')).toBe('50')
  expect(headers.get('x-request-id')).toBeTruthy()
})

test('the other OpenAI fields and settings of local servers are forwarded unchanged', async () => {
  const fields = {
    temperature: 0.25,
    top_p: 0.9,
    n: 1,
    stop: ['\n', 'END'],
    seed: 42,
    logprobs: true,
    top_logprobs: 3,
    logit_bias: { 50256: -100 },
    presence_penalty: 0.5,
    frequency_penalty: -0.5,
    user: 'user-1',
    response_format: { type: 'json_schema', json_schema: { name: 'a', strict: true, schema: { type: 'object' } } },
    tools: [{ type: 'function', function: { name: 'f', parameters: { type: 'object', properties: {} } } }],
    tool_choice: 'auto',
    parallel_tool_calls: false,
    reasoning_effort: 'low',
    store: true,
    metadata: { a: 'b' },
    chat_template_kwargs: { deep: [1, 'x', null] },
  }
  const { body } = await forwarded({ ...hello, ...fields, max_tokens: 50 })
  expect(body).toEqual({ ...fields, model: 'upstream-test-model', messages, max_tokens: 50, stream: false })
})

test("the gateway's own fields are never forwarded", async () => {
  const { body } = await forwarded({
    ...hello,
    tier: 'cheapest',
    privacy_mode: true,
    trusted_only: true,
    max_latency_ms: 60_000,
    fallback_models: ['odd/dialect'],
    allow_hosters: [],
    deny_hosters: [],
  })
  expect(Object.keys(body).sort()).toEqual(['max_tokens', 'messages', 'model', 'stream'])
})

test.each([false, true])('other fields are not forwarded, and a header names them; stream: %s', async stream => {
  const costly = {
    service_tier: 'priority',
    Service_Tier: 'fast',
    web_search_options: {},
    best_of: 9,
    'no header\n': 1,
  }
  const sentBefore = upstream.requests.length
  const response = await gateway.chat(customer, { ...hello, ...costly, top_k: 3, stream, user: null })
  await response.text()
  expect(response.headers.get('x-switchyard-dropped-fields')).toBe(
    'service_tier, Service_Tier, web_search_options, best_of, ...',
  )
  const { stream_options: _, ...body } = upstream.requests[sentBefore]!.body
  expect(Object.keys(body).sort()).toEqual(['max_tokens', 'messages', 'model', 'stream', 'top_k'])
  const plain = await gateway.chat(customer, { ...hello, temperature: 1 })
  expect([plain.status, plain.headers.get('x-switchyard-dropped-fields')]).toEqual([200, null])
  const odd = await gateway.chat(customer, { model: 'odd/dialect', messages, seed: 7 })
  expect(odd.headers.get('x-switchyard-dropped-fields')).toBe('seed')
})

test('the configuration adds fields for a kind of servers and for one endpoint', async () => {
  const extra = { priority: 1, best_of: 2, vendor_only: 3 }
  expect((await forwarded({ ...hello, ...extra })).body).not.toHaveProperty('vendor_only')
  const { body } = await forwarded({ model: 'odd/dialect', messages, ...extra })
  expect(body).toMatchObject({ priority: 1, vendor_only: 3 })
  expect(body).not.toHaveProperty('best_of')
})

test('no field can redirect the request or a credential to another server', async () => {
  const elsewhere = await startScriptedUpstream()
  try {
    const fields = {
      api_base: elsewhere.baseUrl,
      base_url: elsewhere.baseUrl,
      api_key: 'sk-mine',
      api_version: '1',
      headers: { authorization: 'x' },
      extra_headers: { authorization: 'x' },
      extra_body: { model: 'x' },
      user_config: { base_url: elsewhere.baseUrl },
    }
    const { body, headers } = await forwarded({ ...hello, ...fields })
    expect(Object.keys(body).sort()).toEqual(['max_tokens', 'messages', 'model', 'stream'])
    expect(headers.authorization).toBe('Bearer sk-upstream-secret')
    expect(elsewhere.requests).toEqual([])
  } finally {
    await elsewhere.close()
  }
})

test('no header of the customer reaches the upstream', async () => {
  const sentBefore = upstream.requests.length
  await gateway.chat(customer, hello, {
    headers: {
      authorization: `Bearer ${customer.key}`,
      'content-type': 'application/json',
      cookie: 'a=b',
      'x-forwarded-for': '1.2.3.4',
      'x-stainless-lang': 'js',
      'openai-organization': 'org',
      'x-custom': 'y',
    },
  })
  const { headers } = upstream.requests[sentBefore]!
  expect(Object.keys(headers).sort()).toEqual([
    'accept',
    'accept-encoding',
    'authorization',
    'connection',
    'content-length',
    'content-type',
    'host',
    'user-agent',
  ])
  expect(JSON.stringify(headers)).not.toContain(customer.key)
})

test('optional fields that are null are not forwarded', async () => {
  const optional = [
    ...['max_tokens', 'max_completion_tokens', 'stream', 'stream_options', 'temperature', 'n', 'tools', 'tier'],
    ...['privacy_mode', 'trusted_only', 'max_latency_ms', 'fallback_models', 'allow_hosters', 'deny_hosters'],
    ...['stop', 'seed', 'logprobs', 'user', 'response_format', 'tool_choice'],
  ]
  const { body } = await forwarded({ ...hello, ...Object.fromEntries(optional.map(name => [name, null])) })
  expect(Object.keys(body).sort()).toEqual(['max_tokens', 'messages', 'model', 'stream'])
})

test('max_completion_tokens is an alias of max_tokens', async () => {
  const { body } = await forwarded({ ...hello, max_completion_tokens: 33 })
  expect([body.max_tokens, body.max_completion_tokens]).toEqual([33, undefined])
  expect((await forwarded({ ...hello, max_tokens: 34, max_completion_tokens: 34 })).body.max_tokens).toBe(34)
})

test('a request is translated to the dialect of its upstream', async () => {
  const developer = [{ role: 'developer', content: 'Be brief.' }, ...messages]
  const { body, headers } = await forwarded({
    model: 'odd/dialect',
    messages: developer,
    max_tokens: 20,
    seed: 1,
    logprobs: true,
    stop: 'x',
    stream: true,
  })
  expect(body).toEqual({
    model: 'upstream-odd/dialect',
    messages: [{ role: 'system', content: 'Be brief.' }, ...messages],
    max_completion_tokens: 20,
    stop: 'x',
    stream: true,
  })
  expect(headers['api-key']).toBe('odd-secret')
  expect(headers.authorization).toBeUndefined()
})

describe('messages of every kind are forwarded', () => {
  const image = { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=', detail: 'low' } }
  const call = { id: 'call_1', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }
  test.each([
    ['system and assistant', [{ role: 'system', content: 'x' }, ...messages, { role: 'assistant', content: 'Hi' }]],
    ['developer', [{ role: 'developer', content: 'x' }, ...messages]],
    ['parts', [{ role: 'user', content: [{ type: 'text', text: 'What is it?' }, image] }]],
    [
      'tool calls and their results',
      [
        ...messages,
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', tool_call_id: 'call_1', content: 'sunny' },
      ],
    ],
    ['an assistant without content', [...messages, { role: 'assistant', tool_calls: [call] }]],
    [
      'the older function calls',
      [
        ...messages,
        { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
        { role: 'function', name: 'f', content: 'sunny' },
      ],
    ],
    ['fields that must be echoed', [{ role: 'assistant', content: 'a', reasoning_content: 'b' }, ...messages]],
    ['a name', [{ role: 'user', content: 'x', name: 'ada' }]],
    ['empty text', [{ role: 'user', content: '' }]],
    ['text of every script', [{ role: 'user', content: 'zwölf 🦩 ١٢ 十二 \u0000 \ud83e' }]],
  ])('%s', async (_name, sent) => {
    const { body } = await forwarded({ model: 'test-model', messages: sent })
    // Servers that are not clouds get earlier reasoning under both of its names.
    expect(JSON.stringify(body.messages).replace(',"reasoning":"b"', '')).toBe(
      JSON.stringify(sent).replace('\\ud83e', '\ufffd'),
    )
  })
})

test('n choices are returned and billed', async () => {
  const fresh = await gateway.customer()
  const choice = (index: number) => ({
    index,
    message: { role: 'assistant', content: `answer ${index}` },
    finish_reason: 'stop',
  })
  upstream.respondWith(
    status(200, { ...completion(), choices: [choice(0), choice(1), choice(2)], usage: usageOf(10, 8) }),
  )
  const response = await gateway.chat(fresh, { ...hello, n: 2, max_tokens: 5 })
  const body = (await response.json()) as { choices: { message: { content: string } }[] }
  expect(body.choices.map(({ message }) => message.content)).toEqual(['answer 0', 'answer 1'])
  expect(await gateway.usage(fresh)).toMatchObject([{ output_tokens: 8, cost_nanos: 26_000n }])
})

test('a JSON answer keeps its tool calls', async () => {
  upstream.respondWith(answer({ toolCalls: [{ id: 'call_9', name: 'f', arguments: '{"a":1}' }] }))
  const response = await gateway.chat(customer, { ...hello, tools: [{ type: 'function', function: { name: 'f' } }] })
  expect(await response.json()).toMatchObject({
    choices: [
      {
        finish_reason: 'tool_calls',
        message: {
          content: null,
          tool_calls: [{ id: 'call_9', type: 'function', function: { name: 'f', arguments: '{"a":1}' } }],
        },
      },
    ],
  })
})

test('usage details are kept, and cached or reasoning tokens are not billed twice', async () => {
  const fresh = await gateway.customer()
  const usage = {
    ...usageOf(20, 10),
    cost: 17,
    prompt_tokens_details: { cached_tokens: 8 },
    completion_tokens_details: { reasoning_tokens: 6 },
  }
  upstream.respondWith(status(200, { ...completion(), usage }))
  const body = (await (await gateway.chat(fresh, hello)).json()) as { usage: object }
  const { cost: _, ...kept } = usage
  expect(body.usage).toEqual({ ...kept, cost_usd: 0.00004 })
  expect(await gateway.balanceNanos(fresh)).toBe(5_000_000_000n - 40_000n)
})

test.each([true, false])('no usage detail exceeds the billed tokens; stream: %s', async stream => {
  // xAI's reasoning is not bounded by max_tokens.
  const usage = {
    ...usageOf(9_000, 300),
    prompt_tokens_details: { cached_tokens: 8_000, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: 295 },
  }
  upstream.respondWith(answer({ text: 'one two', usage }))
  const response = await gateway.chat(await gateway.customer(), {
    ...hello,
    stream,
    stream_options: { include_usage: true },
    max_tokens: 20,
  })
  const billed = stream
    ? (await readEventStream(response)).usage
    : ((await response.json()) as { usage: TokenUsage }).usage
  expect(billed).toMatchObject({
    completion_tokens: 20,
    completion_tokens_details: { reasoning_tokens: 20 },
    prompt_tokens_details: { cached_tokens: billed!.prompt_tokens, audio_tokens: 0 },
  })
  expect(billed!.prompt_tokens).toBeLessThan(9_000)
})

test('three hundred concurrent requests are each billed once', async () => {
  const fresh = await gateway.customer({ tier: 'scale' })
  upstream.always(answer({ usage: usageOf(10, 5) }))
  const texts = await Promise.all(
    Array.from({ length: 300 }, async (_, index) => {
      const stream = index % 2 === 0
      const response = await gateway.chat(fresh, { ...hello, stream, max_tokens: 10 })
      return stream ? (await readEventStream(response)).done : response.status === 200
    }),
  )
  upstream.always(answer())
  expect(texts.every(Boolean)).toBe(true)
  expect((await gateway.usage(fresh)).length).toBe(300)
  expect(await gateway.balanceNanos(fresh)).toBe(5_000_000_000n - 300n * 20_000n)
})
