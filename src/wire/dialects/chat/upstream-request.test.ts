import { expect, it } from 'vitest'
import type { ModelQuirks, Offer, ProviderKind, UpstreamQuirks } from '../../../base/domain/offer.ts'
import { parseChatRequest } from './chat-dialect.ts'
import { addEndpointFields, droppedFields, extraFieldRules, upstreamRequestBody } from './upstream-request.ts'

const standard: UpstreamQuirks = {
  maxTokensField: 'max_tokens',
  developerToSystem: false,
  streamOptions: true,
  forwardFields: [],
  dropFields: [],
  toolCallIds: 'any',
  hidesReasoning: false,
  base64Embeddings: true,
  keyHeader: 'authorization',
}

function bodyFor(dialect: Partial<UpstreamQuirks>, request: object): Record<string, unknown> {
  const job = parseChatRequest(
    Buffer.from(JSON.stringify({ model: 'public', messages: [{ role: 'developer', content: 'x' }], ...request })),
  )
  const offer = { upstreamModel: 'their-model', endpoint: { dialect: { ...standard, ...dialect } } } as Offer
  return JSON.parse(upstreamRequestBody(job, offer, 77))
}

it('forwards OpenAI fields, with the upstream model and the limit of the ticket', () => {
  expect(bodyFor({}, { temperature: 0.5, seed: 7, max_completion_tokens: 900, stop: null })).toEqual({
    model: 'their-model',
    messages: [{ role: 'developer', content: 'x' }],
    temperature: 0.5,
    seed: 7,
    max_tokens: 77,
    stream: false,
  })
})

it('never forwards fields of the gateway or fields that redirect the request', () => {
  const ours = {
    ...{ tier: 'fastest', privacy_mode: true, trusted_only: true, max_latency_ms: 10, fallback_models: ['b'] },
    ...{ allow_hosters: [], deny_hosters: [], api_base: 'http://evil', base_url: 'http://evil', api_key: 'k' },
    ...{ headers: { a: 'b' }, extra_headers: { a: 'b' }, user_config: {} },
  }
  expect(Object.keys(bodyFor({}, ours)).sort()).toEqual(['max_tokens', 'messages', 'model', 'stream'])
})

it('sends fields that OpenAI does not have to the servers of their kind, and reports those that are left out', () => {
  const request = {
    top_k: 5,
    chat_template_kwargs: { enable_thinking: false },
    thinking: { type: 'x' },
    best_of: 4,
    seed: 1,
  }
  const rules = extraFieldRules({ hoster: ['best_of'], cloud: [] })
  addEndpointFields(rules, ['thinking', 'vendor_only'])
  const job = parseChatRequest(
    Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], vendor_only: 1, ...request })),
    rules,
  )
  const sentTo = (kind: ProviderKind, quirks: Partial<UpstreamQuirks> = {}) => {
    const offer = { upstreamModel: 'm', endpoint: { kind, dialect: { ...standard, ...quirks } } } as Offer
    const {
      model: _,
      messages: __,
      max_tokens: ___,
      stream: ____,
      ...sent
    } = JSON.parse(upstreamRequestBody(job, offer, 77))
    return [Object.keys(sent).sort().join(), droppedFields(job, offer).toSorted().join()]
  }
  expect(sentTo('local')).toEqual(['chat_template_kwargs,seed,thinking,top_k', 'best_of,vendor_only'])
  expect(sentTo('hoster')).toEqual(['best_of,chat_template_kwargs,seed,thinking,top_k', 'vendor_only'])
  expect(sentTo('cloud')).toEqual(['seed', 'best_of,chat_template_kwargs,thinking,top_k,vendor_only'])
  expect(sentTo('cloud', { forwardFields: ['thinking', 'vendor_only'], dropFields: ['seed', 'user'] })).toEqual([
    'thinking,vendor_only',
    'best_of,chat_template_kwargs,seed,top_k',
  ])
})

it('sends stream: false, since some servers stream by default', () => {
  expect(bodyFor({}, {})).toMatchObject({ stream: false })
  expect(bodyFor({}, { stream: null })).toMatchObject({ stream: false })
})

it('replaces lone surrogates, which strict upstreams refuse', () => {
  const messages = [
    { role: 'user', content: 'cut \ud83d' },
    { role: 'user', content: [{ type: 'text', text: '\ude00 whole \ud83d\ude00' }] },
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'a', type: 'function', function: { arguments: '\udcb0' } }],
    },
  ]
  const sent = bodyFor({}, { messages, stop: ['\ud800'], tools: [{ function: { '\udc00': { c: 1 } } }] })
  expect(sent).toMatchObject({
    messages: [
      { content: 'cut \ufffd' },
      { content: [{ text: '\ufffd whole \ud83d\ude00' }] },
      { tool_calls: [{ function: { arguments: '\ufffd' } }] },
    ],
    stop: ['\ufffd'],
    tools: [{ function: { '\ufffd': { c: 1 } } }],
  })
  const escapes = JSON.stringify({ content: 'C:\\ud83d' })
  expect(bodyFor({}, { messages: [{ role: 'user', ...JSON.parse(escapes) }] }).messages).toEqual([
    { role: 'user', content: 'C:\\ud83d' },
  ])
})

it('always requests usage for a stream if the upstream accepts stream_options', () => {
  expect(bodyFor({}, { stream: true })).toMatchObject({ stream: true, stream_options: { include_usage: true } })
  expect(
    bodyFor({ streamOptions: false }, { stream: true, stream_options: { include_usage: true } }),
  ).not.toHaveProperty('stream_options')
})

it('adapts to the dialect of the upstream', () => {
  expect(bodyFor({ maxTokensField: 'max_completion_tokens' }, {})).toMatchObject({ max_completion_tokens: 77 })
  expect(bodyFor({ developerToSystem: true }, {}).messages).toEqual([{ role: 'system', content: 'x' }])
  expect(bodyFor({ dropFields: ['seed', 'user'] }, { seed: 7, user: 'u', top_p: 1 })).toEqual(bodyFor({}, { top_p: 1 }))
})

it('drops null fields of messages, which SDKs send back and strict upstreams refuse', () => {
  const answered = { role: 'assistant', content: 'Hi', refusal: null, tool_calls: null, annotations: [] }
  const called = { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function' }], audio: null }
  const messages = [{ role: 'user', content: 'x', name: null }, answered, called]
  expect(bodyFor({}, { messages }).messages).toEqual([
    { role: 'user', content: 'x' },
    { role: 'assistant', content: 'Hi', annotations: [] },
    { role: 'assistant', content: null, tool_calls: [{ id: 'a', type: 'function' }] },
  ])
})

it('drops empty lists of tools and tool calls, which OpenAI and vLLM refuse', () => {
  const messages = [{ role: 'assistant', content: 'y', tool_calls: [] }]
  const none = { tools: [], tool_choice: 'auto', parallel_tool_calls: true, functions: [] }
  expect(bodyFor({}, { messages, ...none })).toEqual({
    model: 'their-model',
    messages: [{ role: 'assistant', content: 'y' }],
    max_tokens: 77,
    stream: false,
  })
  // A tool choice without a list is dropped too: agents that summarise a conversation send only a tool_choice.
  for (const tools of [{}, { tools: null }]) {
    const idle = { ...tools, tool_choice: 'none', parallel_tool_calls: false, function_call: 'auto' }
    expect(Object.keys(bodyFor({}, idle)).sort()).toEqual(['max_tokens', 'messages', 'model', 'stream'])
  }
  // The upstream refuses a required tool that does not exist.
  for (const tools of [{}, { tools: [] }]) {
    expect(bodyFor({}, { ...tools, tool_choice: 'required' })).toMatchObject({ tool_choice: 'required' })
  }
  const some = {
    tools: [{ type: 'function', function: { name: 'f' } }],
    tool_choice: 'auto',
    parallel_tool_calls: false,
  }
  expect(bodyFor({}, some)).toMatchObject(some)
  const older = { functions: [{ name: 'f' }], function_call: 'auto' }
  expect(bodyFor({}, older)).toMatchObject(older)
})

it('drops empty stop sequences, which vLLM refuses and Ollama treats as "never stop"', () => {
  for (const stop of [[], '']) expect(bodyFor({}, { stop })).not.toHaveProperty('stop')
  for (const stop of [['a'], 'a']) expect(bodyFor({}, { stop })).toMatchObject({ stop })
})

it('drops metadata without store, which OpenAI refuses', () => {
  const metadata = { session: 's' }
  expect(bodyFor({}, { metadata })).not.toHaveProperty('metadata')
  expect(bodyFor({}, { metadata, store: false })).not.toHaveProperty('metadata')
  expect(bodyFor({}, { metadata, store: true })).toMatchObject({ metadata, store: true })
})

it('drops the message fields that the dialect lists, only for this upstream', () => {
  const messages = [
    { role: 'user', content: 'x', name: 'ada' },
    { role: 'assistant', content: 'y', reasoning_content: 'z' },
  ]
  const dropFields = ['messages[].name', 'seed', 'messages[].reasoning_content']
  expect(bodyFor({ dropFields, developerToSystem: true }, { messages, seed: 7 })).toEqual({
    model: 'their-model',
    messages: [
      { role: 'user', content: 'x' },
      { role: 'assistant', content: 'y' },
    ],
    max_tokens: 77,
    stream: false,
  })
  expect(bodyFor({}, { messages }).messages).toEqual([messages[0], { ...messages[1], reasoning: 'z' }])
})

it('passes reasoning fields on, except to upstreams with a dialect that drops them', () => {
  const signed = { google: { thought_signature: 's' } }
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } }
  const thought = {
    role: 'assistant',
    content: null,
    reasoning_content: 'r',
    reasoning_details: [{ type: 'reasoning.encrypted', data: 'd', format: null }],
    extra_content: signed,
    tool_calls: [{ ...call, extra_content: signed }],
  }
  const messages = [thought, { role: 'tool', content: 'x', tool_call_id: 'a' }]
  // Some versions of vLLM read one name of the text, and some the other.
  expect(bodyFor({}, { messages }).messages).toEqual([{ ...thought, reasoning: 'r' }, messages[1]])
  const dropFields = ['reasoning_content', 'reasoning_details', 'extra_content', 'tool_calls[].extra_content'].map(
    field => `messages[].${field}`,
  )
  expect(bodyFor({ dropFields }, { messages }).messages).toEqual([
    { role: 'assistant', content: null, tool_calls: [call] },
    messages[1],
  ])
})

it('leaves the job unchanged for the next upstream', () => {
  const messages = [{ role: 'user', content: 'x', name: 'ada' }]
  const job = parseChatRequest(Buffer.from(JSON.stringify({ model: 'public', messages })))
  const to = (dropFields: string[]) => {
    const offer = { upstreamModel: 'm', endpoint: { dialect: { ...standard, dropFields } } } as unknown as Offer
    return JSON.parse(upstreamRequestBody(job, offer, 1)).messages
  }
  expect([to(['messages[].name']), to([])]).toEqual([[{ role: 'user', content: 'x' }], messages])
})

it('replaces tool call ids that the upstream rejects, the same way everywhere', () => {
  const conversation = (...ids: string[]) => ({
    messages: [
      { role: 'user', content: 'x' },
      {
        role: 'assistant',
        content: null,
        tool_calls: ids.map(id => ({ id, type: 'function', function: { name: 'f', arguments: '{}' } })),
      },
      ...ids.map(id => ({ role: 'tool', tool_call_id: id, content: 'y' })),
    ],
  })
  const ids = ['call_0fypS1hVX', `chatcmpl-tool-${'a'.repeat(32)}`, 'functions.f:0', 'aBcDeF123']
  const sentTo = (toolCallIds: UpstreamQuirks['toolCallIds']) => {
    const messages = bodyFor({ toolCallIds }, conversation(...ids)).messages as {
      tool_calls?: { id: string; type: string }[]
      tool_call_id?: string
    }[]
    const calls = messages.flatMap(({ tool_calls = [] }) => tool_calls)
    const answers = messages.flatMap(({ tool_call_id = [] }) => tool_call_id)
    expect(calls.map(({ id }) => id)).toEqual(answers)
    expect(calls[0]).toMatchObject({ type: 'function', function: { name: 'f' } })
    expect(new Set(answers).size).toBe(ids.length)
    return answers
  }
  expect(sentTo('any')).toEqual(ids)
  const hex = (digits: number) => expect.stringMatching(new RegExp(`^[0-9a-f]{${digits}}$`))
  expect(sentTo('short')).toEqual([ids[0], hex(24), hex(24), ids[3]])
  expect(sentTo('nine')).toEqual([hex(9), hex(9), hex(9), ids[3]])
  expect(sentTo('nine')).toEqual(sentTo('nine'))
})

const gpt: ModelQuirks = { dropFields: [], exclusiveReasoning: true }
const tools = [{ type: 'function', function: { name: 'f' } }]

it.each<[name: string, quirks: ModelQuirks, request: object, sent: object, dropped: string]>([
  ['tools get no reasoning', gpt, { tools, temperature: 0 }, { tools, temperature: 0, reasoning_effort: 'none' }, ''],
  [
    'tools get no reasoning even if it was asked for',
    gpt,
    { tools, reasoning_effort: 'high' },
    { tools, reasoning_effort: 'none' },
    'reasoning_effort',
  ],
  [
    'functions count as tools',
    gpt,
    { functions: [{ name: 'f' }] },
    { functions: [{ name: 'f' }], reasoning_effort: 'none' },
    '',
  ],
  ['an empty list of tools does not', gpt, { tools: [], reasoning_effort: 'low' }, { reasoning_effort: 'low' }, ''],
  [
    'sampling settings are left out while it reasons',
    gpt,
    { temperature: 0.2, top_p: 1, logprobs: true, seed: 1 },
    { seed: 1 },
    'temperature,top_p,logprobs',
  ],
  [
    'sampling settings are sent without reasoning',
    gpt,
    { temperature: 0.2, reasoning_effort: 'none' },
    { temperature: 0.2, reasoning_effort: 'none' },
    '',
  ],
  [
    'fields of one model are left out',
    { dropFields: ['temperature', 'top_p'], exclusiveReasoning: false },
    { tools, temperature: 0.2 },
    { tools },
    'temperature',
  ],
])('a model with quirks: %s', (_name, quirks, request, expected, dropped) => {
  const job = parseChatRequest(
    Buffer.from(JSON.stringify({ model: 'm', messages: [{ role: 'user', content: 'x' }], ...request })),
  )
  const offer = { upstreamModel: 'm', endpoint: { kind: 'cloud', dialect: standard }, quirks } as unknown as Offer
  const {
    model: _,
    messages: __,
    max_tokens: ___,
    stream: ____,
    ...sent
  } = JSON.parse(upstreamRequestBody(job, offer, 77))
  expect(sent).toEqual(expected)
  expect(droppedFields(job, offer).join()).toBe(dropped)
})
