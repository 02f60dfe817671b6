import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { countPromptTokens, countTokens } from '../../tokens/count-tokens.ts'
import { parseChatRequest } from './chat-dialect.ts'
import { chatRequestSchema, messageSchema } from './chat-request-schema.ts'

const user = { role: 'user', content: 'Hello' }
const minimal = { model: 'm', messages: [user] }
const uuid = '0198C0DE-0000-7000-8000-00000000ABCD'

const parse = (body: unknown) => parseChatRequest(Buffer.from(typeof body === 'string' ? body : JSON.stringify(body)))

function refusalOf(body: unknown): { code: string; param: string | null; message: string } {
  try {
    parse(body)
  } catch (error) {
    return error as never
  }
  throw new Error('the body was accepted')
}

describe('a valid request', () => {
  it('needs only model and messages', () => {
    expect(parse(minimal)).toMatchObject({
      model: 'm',
      stream: false,
      includeUsage: false,
      maxTokens: null,
      onInsufficient: 'refuse',
      choices: 1,
      messageCount: 1,
      hasStop: false,
      constraints: {
        serviceTier: 'balanced',
        privacyMode: false,
        trustedOnly: false,
        maxLatencyMs: null,
        fallbackModels: [],
        allowHosters: null,
        denyHosters: new Set(),
      },
      forward: { messages: [user] },
    })
  })

  it.each<[stop: unknown, hasStop: boolean]>([
    ['x', true],
    [['x'], true],
    ['', false],
    [[], false],
    [null, false],
    [undefined, false],
    [1, false],
  ])('with stop %j sets hasStop to %j', (stop, hasStop) => {
    expect(parse({ ...minimal, stop }).hasStop).toBe(hasStop)
  })

  it('drops the fields of the gateway and keeps the other OpenAI fields', () => {
    const job = parse({
      ...minimal,
      ...{ max_tokens: 5, stream: true, stream_options: { include_usage: true }, n: 2 },
      ...{ tier: 'cheapest', privacy_mode: true, trusted_only: true, max_latency_ms: 900, fallback_models: ['a', 'b'] },
      ...{ allow_hosters: [uuid], deny_hosters: [uuid], on_insufficient: 'clamp' },
      ...{ temperature: 2, top_p: 0.1, stop: ['x'], seed: 1, logprobs: true, chat_template_kwargs: { deep: [1] } },
    })
    expect(job).toMatchObject({ maxTokens: 5, onInsufficient: 'clamp', stream: true, includeUsage: true, choices: 2 })
    expect(job.constraints).toEqual({
      serviceTier: 'cheapest',
      privacyMode: true,
      trustedOnly: true,
      maxLatencyMs: 900,
      fallbackModels: ['a', 'b'],
      allowHosters: new Set([uuid.toLowerCase()]),
      denyHosters: new Set([uuid.toLowerCase()]),
    })
    expect(job.forward).toEqual({
      messages: [user],
      ...{
        n: 2,
        temperature: 2,
        top_p: 0.1,
        stop: ['x'],
        seed: 1,
        logprobs: true,
        chat_template_kwargs: { deep: [1] },
      },
    })
  })

  it('drops other names and spellings of the fields of the gateway', () => {
    const job = parse({
      ...minimal,
      ...{ n_predict: 4_000, num_predict: 1, max_new_tokens: 1, max_output_tokens: 1, max_length: 1 },
      ...{
        models: ['expensive'],
        route: 'fallback',
        provider: { order: ['x'] },
        preset: 'p',
        plugins: [{ id: 'web' }],
      },
      ...{
        Model: 'expensive',
        Stream: true,
        MAX_TOKENS: 4_000,
        'max_completion_to\u212aens': 4_000,
        Messages: [],
        \u017ftream: true,
      },
      ...{ API_Base: 'http://x', __PROTO__: 1, Top_P: 1, topP: 2 },
    })
    expect(job).toMatchObject({ model: 'm', stream: false, maxTokens: null, extraFields: [] })
    expect(job.forward).toEqual({ messages: [user] })
    expect(job.droppedFields).toEqual(expect.arrayContaining(['n_predict', 'models', 'Model', 'API_Base', 'topP']))
  })

  it('drops fields that have no price or affect other requests, and reports their names', () => {
    const unpriced = {
      ...{ best_of: 8, use_beam_search: true, prompt_logprobs: 5, priority: -9, id_slot: 0, cache_salt: 'x' },
      ...{ kv_transfer_params: {}, session_params: {}, custom_logit_processor: '{}', logits_processors: ['os.system'] },
      ...{ chat_template: '{{ 7 }}', lora: [{ id: 0 }], lora_path: '/x', search_parameters: { mode: 'on' } },
      ...{ fallbacks: ['gpt-6.1'], service_tier: 'priority', web_search_options: {}, moderation: { model: 'm' } },
      ...{ prompt_cache_retention: '24h', prompt_cache_options: { ttl: '1h' }, a_future_field: 1, constructor: 1 },
    }
    const job = parse({ ...minimal, ...unpriced, safety_identifier: 'u', another: null })
    expect(job.forward).toEqual({ messages: [user], safety_identifier: 'u' })
    expect(job.droppedFields.toSorted()).toEqual(Object.keys(unpriced).sort())
  })

  it('drops cache_control, but not a parameter of that name', () => {
    const cache_control = { type: 'ephemeral', ttl: '1h' }
    const part = { type: 'text', text: 'x' }
    const parameters = { type: 'object', properties: { cache_control: { type: 'string' } } }
    const tool = { type: 'function', function: { name: 'f', parameters } }
    const job = parse({
      model: 'm',
      messages: [
        { role: 'system', content: [{ ...part, cache_control }] },
        { ...user, cache_control },
      ],
      tools: [
        { ...tool, cache_control },
        { ...tool, function: { ...tool.function, cache_control } },
      ],
    })
    expect(job.forward).toEqual({ messages: [{ role: 'system', content: [part] }, user], tools: [tool, tool] })
    expect(job.droppedFields).toEqual(['cache_control'])
  })

  it('rounds max_cost_usd down to nano-USD', () => {
    const capOf = (max_cost_usd: number) => parse({ ...minimal, max_cost_usd }).maxCostNanos
    expect(capOf(0.29)).toBe(290_000_000n)
    expect(capOf(0.1 + 0.2)).toBe(300_000_000n)
    expect(capOf(1e-9)).toBe(1n)
    expect(capOf(1.6e-9)).toBe(1n)
    expect(capOf(0.0000164006)).toBe(16_400n)
    expect(capOf(1_000_000)).toBe(1_000_000_000_000_000n)
  })

  it('may set any optional field to null', () => {
    const nulls = Object.fromEntries(
      Object.keys(chatRequestSchema.shape)
        .filter(field => field !== 'model' && field !== 'messages')
        .map(field => [field, null]),
    )
    expect(parse({ ...minimal, ...nulls, top_p: null })).toMatchObject({
      ...parse(minimal),
      promptText: expect.any(Function),
    })
  })

  it('may use max_completion_tokens for max_tokens, or both with the same value', () => {
    expect(parse({ ...minimal, max_completion_tokens: 7 }).maxTokens).toBe(7)
    expect(parse({ ...minimal, max_tokens: 7, max_completion_tokens: 7 }).maxTokens).toBe(7)
  })

  it.each<[name: string, message: object]>([
    ['system', { role: 'system', content: 'x' }],
    ['developer', { role: 'developer', content: [{ type: 'text', text: 'x' }] }],
    [
      'user with parts',
      {
        role: 'user',
        content: [
          { type: 'text', text: 'x', prompt_cache_breakpoint: {} },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,AA', detail: 'low' } },
        ],
      },
    ],
    [
      'user with audio and a file',
      {
        role: 'user',
        name: 'u',
        content: [
          { type: 'input_audio', input_audio: { data: 'AA', format: 'wav' } },
          { type: 'file', file: { filename: 'f', file_data: 'data:application/pdf;base64,AA', file_id: null } },
        ],
      },
    ],
    [
      'assistant without content',
      { role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }] },
    ],
    [
      'assistant with null content',
      { role: 'assistant', content: null, function_call: { name: 'f', arguments: '{}' } },
    ],
    ['assistant with a refusal', { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }], refusal: 'no' }],
    [
      'assistant with a custom tool call',
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'a', type: 'custom', custom: { name: 'f', input: 'x' } }],
      },
    ],
    ['tool', { role: 'tool', tool_call_id: 'a', content: 'x' }],
    ['function', { role: 'function', name: 'f', content: null }],
    ['unknown keys', { role: 'assistant', content: 'x', reasoning_content: 'r', extra: [1] }],
  ])('may have a message: %s', (_name, message) => {
    expect(parse({ model: 'm', messages: [message] }).forward.messages).toEqual([message])
  })

  it.each(['system', 'developer', 'user', 'assistant'])('has a plain %s message that the schema accepts too', role => {
    const message = { role, content: '' }
    expect(parse({ model: 'm', messages: [message] }).forward.messages).toEqual([message])
    expect(messageSchema.parse(message)).toEqual(message)
  })

  it('lists the features it uses', () => {
    const features = (body: object) => [...parse({ ...minimal, ...body }).features].sort()
    const part = (value: object) => ({ messages: [{ role: 'user', content: [value] }] })
    expect(features({})).toEqual([])
    expect(features({ tools: [] })).toEqual([])
    expect(features({ tools: [{ type: 'function', function: { name: 'f' } }] })).toEqual(['tools'])
    expect(features({ response_format: { type: 'json_schema', json_schema: {} } })).toEqual(['json_schema'])
    expect(features({ response_format: { type: 'json_object' } })).toEqual([])
    expect(features(part({ type: 'image_url', image_url: { url: 'data:' } }))).toEqual(['images'])
    expect(features(part({ type: 'input_audio', input_audio: { data: '', format: 'wav' } }))).toEqual(['audio'])
  })
})

describe('an invalid request', () => {
  const message = (fields: unknown) => ({ model: 'm', messages: [user, fields] })
  const integer = 'an integer from 1 to 2147483647'

  const refused: [body: unknown, code: string, param: string, says: string][] = [
    [{ messages: [user] }, 'missing_parameter', 'model', 'is required'],
    [{ ...minimal, model: null }, 'invalid_value', 'model', 'got null'],
    [{ ...minimal, model: '' }, 'invalid_value', 'model', '1 to 256 characters'],
    [{ ...minimal, model: 'x'.repeat(257) }, 'invalid_value', 'model', '1 to 256 characters'],
    [{ ...minimal, model: 'a\r\nb' }, 'invalid_value', 'model', 'no control characters'],
    [{ model: 'm' }, 'missing_parameter', 'messages', 'is required'],
    [{ model: 'm', messages: 'hi' }, 'invalid_value', 'messages', 'got "hi"'],
    [{ model: 'm', messages: [] }, 'invalid_value', 'messages', 'got an empty array'],
    [{ model: 'm', messages: Array(2_049).fill(user) }, 'invalid_value', 'messages', 'at most 2048'],
    [message('hi'), 'invalid_value', 'messages[1]', 'an object'],
    [message({ content: 'x' }), 'missing_parameter', 'messages[1].role', 'system, developer, user'],
    [message({ role: 'robot', content: 'x' }), 'invalid_value', 'messages[1].role', 'got "robot"'],
    [message({ role: 'x'.repeat(1e6), content: 'x' }), 'invalid_value', 'messages[1].role', '…"'],
    [message({ role: 'user' }), 'missing_parameter', 'messages[1].content', 'a string or an array'],
    [message({ role: 'user', content: 7 }), 'invalid_value', 'messages[1].content', 'got 7'],
    [message({ role: 'user', content: ['x'] }), 'invalid_value', 'messages[1].content[0]', 'content part'],
    [
      message({ role: 'user', content: [{ type: 'smell' }] }),
      'invalid_value',
      'messages[1].content[0].type',
      'got "smell"',
    ],
    [
      message({ role: 'user', content: [{ type: 'text' }] }),
      'missing_parameter',
      'messages[1].content[0].text',
      'a string',
    ],
    [message({ role: 'user', content: Array(2_049).fill({}) }), 'invalid_value', 'messages[1].content', 'at most 2048'],
    [message({ role: 'tool', content: 'x' }), 'missing_parameter', 'messages[1].tool_call_id', 'a string'],
    ...[0, -1, 1.5, '10', 2 ** 53, 2 ** 31, true, []].map(
      value =>
        [{ ...minimal, max_tokens: value }, 'invalid_value', 'max_tokens', integer] as [
          unknown,
          string,
          string,
          string,
        ],
    ),
    [
      '{"model":"m","messages":[{"role":"user","content":"x"}],"max_tokens":1e999}',
      'invalid_value',
      'max_tokens',
      'got Infinity',
    ],
    [{ ...minimal, max_tokens: 1, max_completion_tokens: 2 }, 'invalid_value', 'max_tokens', 'differ'],
    [{ ...minimal, stream: 'yes' }, 'invalid_value', 'stream', 'true or false'],
    [
      { ...minimal, stream_options: { include_usage: 1 } },
      'invalid_value',
      'stream_options.include_usage',
      'true or false',
    ],
    [{ ...minimal, temperature: 2.01 }, 'invalid_value', 'temperature', 'from 0 to 2'],
    [{ ...minimal, temperature: '1' }, 'invalid_value', 'temperature', 'from 0 to 2'],
    [{ ...minimal, n: 17 }, 'invalid_value', 'n', 'from 1 to 16'],
    [{ ...minimal, tools: Array(513).fill({}) }, 'invalid_value', 'tools', 'at most 512'],
    [
      { ...minimal, tools: [{}, { type: 'openrouter:web_search' }] },
      'invalid_value',
      'tools[1].type',
      'function, custom',
    ],
    [{ ...minimal, tools: ['f'] }, 'invalid_value', 'tools[0]', 'an object'],
    [{ ...minimal, tier: 'free' }, 'invalid_value', 'tier', 'cheapest, balanced, fastest'],
    [{ ...minimal, privacy_mode: 1 }, 'invalid_value', 'privacy_mode', 'true or false'],
    [{ ...minimal, trusted_only: 'true' }, 'invalid_value', 'trusted_only', 'true or false'],
    [{ ...minimal, max_latency_ms: 0 }, 'invalid_value', 'max_latency_ms', integer],
    [{ ...minimal, fallback_models: 'b' }, 'invalid_value', 'fallback_models', 'at most 16 model ids'],
    [{ ...minimal, fallback_models: ['b', 3] }, 'invalid_value', 'fallback_models[1]', 'a model id'],
    [{ ...minimal, fallback_models: Array(17).fill('b') }, 'invalid_value', 'fallback_models', 'at most 16'],
    [
      { ...minimal, allow_hosters: [uuid, uuid, 'nope'] },
      'invalid_value',
      'allow_hosters[2]',
      'a hoster UUID; got "nope"',
    ],
    [{ ...minimal, deny_hosters: Array(257).fill(uuid) }, 'invalid_value', 'deny_hosters', 'at most 256'],
  ]
  it.each(refused.map(([body, code, param, says]) => ({ body, code, param, says })))(
    '$code: $param, $says',
    ({ body, code, param, says }) => {
      const refusal = refusalOf(body)
      expect(refusal).toMatchObject({ code, param })
      expect(refusal.message).toContain(says)
      expect(refusal.message.length).toBeLessThan(300)
    },
  )

  it.each<[name: string, body: string | Buffer]>([
    ['nothing', ''],
    ['a cut body', '{"model":"m"'],
    ['an array', '[]'],
    ['null', 'null'],
    ['a string', '"x"'],
    ['invalid UTF-8', Buffer.concat([Buffer.from('{"model":"'), Buffer.from([0xc3, 0x28]), Buffer.from('"}')])],
    ['65 levels', `{"a":${'['.repeat(64)}${']'.repeat(64)}}`],
    ['200,000 levels', '['.repeat(200_000)],
  ])('is %s', (_name, body) => {
    expect(() => parseChatRequest(Buffer.from(body))).toThrow(expect.objectContaining({ code: 'invalid_json' }))
  })

  it('does not include strings that only look deeply nested', () => {
    expect(parse({ ...minimal, user: `\\"${'['.repeat(100)}"` }).forward.user).toHaveLength(103)
    expect(parse({ ...minimal, user: JSON.parse(`${'['.repeat(63)}${']'.repeat(63)}`) }).messageCount).toBe(1)
  })
})

it('refuses an invalid value every time, also after a valid one', () => {
  const refusal = expect.objectContaining({ code: 'invalid_value', param: 'temperature' })
  for (const temperature of [2.01, 2.01, 1, 2.01, [1], [1]]) {
    const parsed = () => parse({ ...minimal, temperature })
    if (temperature === 1) expect(parsed().forward.temperature).toBe(1)
    else expect(parsed).toThrow(refusal)
  }
  expect(parse({ ...minimal, temperature: 1 }).forward.temperature).toBe(1)
})

it('drops prototype keys by name, and keeps those of messages and tools as members', () => {
  const keys = '"__proto__":{"stream":true,"polluted":1},"constructor":{"prototype":{"polluted":1}},"prototype":1'
  const messages = '[{"role":"user","content":"x","__\\u0070roto__":{"polluted":1}}]'
  const job = parse(`{"model":"m",${keys},"messages":${messages},"tools":[{"__proto__":{"polluted":1}}]}`)
  expect(job.stream).toBe(false)
  expect(job.droppedFields).toEqual(['__proto__', 'constructor', 'prototype'])
  expect(JSON.stringify(job.forward)).toBe(
    '{"messages":[{"role":"user","content":"x","__proto__":{"polluted":1}}],"tools":[{"__proto__":{"polluted":1}}]}',
  )
  expect(({} as { polluted?: number }).polluted).toBeUndefined()
})

it('accepts a long conversation with many tools and any characters in its texts', () => {
  const call = { id: 'c', type: 'function', function: { name: 'f', arguments: '{"a":[1,2,{"b":3}]}'.repeat(3) } }
  const turn = [
    { role: 'assistant', content: null, tool_calls: [call] },
    { role: 'tool', tool_call_id: 'c', content: '{[:,'.repeat(50) },
  ]
  const properties = Object.fromEntries(Array.from({ length: 10 }, (_, at) => [`p${at}`, { type: 'string' }]))
  const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object', properties } } }
  const full = { ...minimal, messages: Array(1_024).fill(turn).flat(), tools: Array(512).fill(tool) }
  expect(parse(full).messageCount).toBe(2_048)
})

it('accepts 131,072 opening brackets, colons and commas outside strings, and refuses one more', () => {
  // Twelve of them are not between the items.
  const withItems = (count: number) =>
    `{"model":"m","messages":[{"role":"user","content":"x"}],"x":[1${',1'.repeat(count - 1)}]}`
  expect(parse(withItems(131_061)).messageCount).toBe(1)
  expect(() => parse(withItems(131_062))).toThrow(/has 131073 opening brackets, colons and commas/)
})

describe('the bound on input tokens', () => {
  const bound = (body: object) => parse({ ...minimal, ...body }).inputTokensBound

  it('is bytes of text and overhead, with media at a flat bound', () => {
    const image = { type: 'image_url', image_url: { url: `data:image/png;base64,${'A'.repeat(100_000)}` } }
    const audio = { type: 'input_audio', input_audio: { data: 'A'.repeat(1_600), format: 'wav' } }
    const withParts = (...content: object[]) => bound({ messages: [{ role: 'user', content }] })
    expect(bound({})).toBe(5 + 16 + 64)
    expect(bound({ messages: [user, { role: 'user', content: '漢字' }] })).toBe(5 + 6 + 2 * 16 + 64)
    expect(withParts({ type: 'text', text: 'Hello' }, image, image)).toBe(5 + 2 * 2_048 + 16 + 64)
    expect(withParts(audio)).toBe(64 + 100 + 16 + 64)
    expect(parse({ model: 'm', messages: [{ role: 'user', content: [image] }] }).mediaTokensBound).toBe(2_048)
  })

  it('covers tools, tool calls, names and unknown message fields', () => {
    const tools = [{ type: 'function', function: { name: 'f', description: 'd'.repeat(500) } }]
    expect(bound({ tools })).toBe(bound({}) + JSON.stringify(tools).length)
    expect(bound({ messages: [{ ...user, reasoning_content: 'r'.repeat(300) }] })).toBe(bound({}) + 300)
  })

  it('covers every other forwarded field, but no settings', () => {
    const documents = [{ title: 'd', text: 't'.repeat(500) }]
    expect(bound({ documents })).toBe(bound({}) + JSON.stringify(documents).length)
    expect(bound({ grammar: 's'.repeat(100) })).toBe(bound({}) + 102)
    const part = { type: 'text', text: 'Hello' }
    const withPart = (more: object) => bound({ messages: [{ role: 'user', content: [{ ...part, ...more }] }] })
    expect(withPart({ aside: 'a'.repeat(100) })).toBe(withPart({}) + 102)
    expect(bound({ temperature: 1, seed: 7, stop: ['x'], user: 'u', metadata: { a: 'b' }, unknown: null })).toBe(
      bound({}),
    )
    // These fields are not forwarded.
    expect(bound({ api_base: 'http://x', privacy_mode: true, a_new_field: 'x' })).toBe(bound({}))
  })

  it.each([
    'plain English text, nothing else',
    '漢字かな交じり文',
    '🙂🏳️‍🌈',
    '\u0000\u0001\u0002',
    'a'.repeat(5_000),
    '  \n\t  ',
  ])('is never below the count of %j', content => {
    const job = parse({ model: 'm', messages: [{ role: 'user', content }] })
    expect(countPromptTokens(job, undefined)).toBeLessThanOrEqual(job.inputTokensBound)
    expect(countPromptTokens(job, undefined)).toBe(countTokens(content) + 6)
  })
})

it('describes every field for the OpenAPI document', () => {
  const schema = z.toJSONSchema(chatRequestSchema, { io: 'input' })
  const described = (
    schema.$defs as Record<string, { properties: Record<string, { description?: string }>; required: string[] }>
  ).ChatCompletionRequest!
  expect(described.required).toEqual(['model', 'messages'])
  for (const [field, property] of Object.entries(described.properties))
    expect([field, property.description]).toEqual([field, expect.any(String)])
})
