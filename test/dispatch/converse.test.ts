import type { ConverseRequest } from '@aws-sdk/client-bedrock-runtime'
import { describe, expect, test } from 'vitest'
import type { ChatCompletion } from '../../src/base/domain/completion.ts'
import type { Answer } from '../../src/base/domain/handoff.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { type ListedPrice, pricesOf } from '../../src/base/domain/price-list.ts'
import { dialectAt } from '../../src/base/domain/upstream-dialect.ts'
import type { Unserved } from '../../src/base/domain/upstream-failure.ts'
import { awsSignatureHeaders } from '../../src/wire/credentials/aws-signature.ts'
import { chatJobOf } from '../../src/wire/dialects/chat/conversation-to-chat.ts'
import { parseMessagesRequest } from '../../src/wire/dialects/messages/messages-request.ts'
import { nativeDroppedFields, nativeTask } from '../../src/wire/dialects/native-task.ts'
import {
  bedrockAnswer,
  bedrockError,
  bedrockStream,
  eventFrame,
  exceptionFrame,
  streamFrames,
} from '../harness/scripted-bedrock.ts'
import { useUpstream } from '../harness/use-test-app.ts'
import { jobOf, offerAt, readStream, useDispatching } from './dispatching.ts'

const upstream = useUpstream('test')
const spare = useUpstream('test')
const dispatching = useDispatching('test')

const claude = 'global.anthropic.claude-opus-5-v1:0'
const keys = {
  kind: 'aws_keys',
  accessKeyId: 'AKIDEXAMPLE',
  secretAccessKey: 'secret',
  sessionToken: 'session',
  region: 'eu-central-1',
} as const

function bedrock(upstreamModel = claude, more: Partial<Offer> = {}): Offer {
  const offer = offerAt(`http://127.0.0.1:${upstream.port}`, { name: 'bedrock', upstreamModel })
  return {
    ...offer,
    endpoint: { ...offer.endpoint, apiKey: null, credential: keys },
    speaks: ['converse'],
    ...more,
  }
}

const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }]
const calls = [
  { id: 'call_1', name: 'look', args: { at: 'sea', deep: [1, { x: 'ü' }] } },
  { id: 'call_2', name: 'look', args: {} },
]
const thinking = { text: 'Hm, the sea.', seal: Buffer.from('a seal').toString('base64') }
const usage = {
  prompt_tokens: 38,
  completion_tokens: 7,
  total_tokens: 45,
  prompt_tokens_details: { cached_tokens: 20, cache_write_tokens: 8 },
}

function completionOf(answered: Answer): ChatCompletion {
  if (answered.kind !== 'whole') throw new Error('The answer is not whole.')
  return answered.completion
}

const messagesJob = (body: object) => chatJobOf(parseMessagesRequest(Buffer.from(JSON.stringify(body))), new Map())
const bodyOf = (index = -1) => upstream.requests.at(index)!.body as unknown as ConverseRequest
const unserved = (sending: Promise<unknown>): Promise<Unserved> =>
  sending.then(
    () => Promise.reject(new Error('the request was answered')),
    failure => failure,
  )

test('answers whole, with usage in parts, and each request is signed', async () => {
  upstream.respondWith(bedrockAnswer({ thinking, text: 'Blue and wide.' }))
  const { choices, usage: reported } = completionOf(await dispatching.send(bedrock()))
  expect(choices[0]).toMatchObject({ message: { content: 'Blue and wide.' }, finish_reason: 'stop' })
  expect(choices[0]!.message.reasoning_content).toBe('Hm, the sea.')
  expect(reported).toMatchObject(usage)
  const { path, headers, rawBody } = upstream.requests[0]!
  expect(path).toBe(`/model/${encodeURIComponent(claude)}/converse`)
  const at = headers['x-amz-date'] as string
  const epochMs = Date.parse(at.replace(/^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/, '$1-$2-$3T$4:$5:$6Z'))
  expect(Math.abs(epochMs - Date.now())).toBeLessThan(600_000)
  const url = new URL(`http://127.0.0.1:${upstream.port}${path}`)
  expect(headers).toMatchObject(awsSignatureHeaders(keys, { method: 'POST', url, body: rawBody, epochMs }))
  expect(headers['x-amz-security-token']).toBe('session')
  expect(headers.accept).toBe('application/vnd.amazon.eventstream, application/json')
})

test.each([false, true])('answers in a stream, split at every byte: %s', async split => {
  const text = 'Blue "and" wide: ü, \n漢 😀.'
  upstream.respondWith(bedrockAnswer({ thinking, text }, split))
  const seen = await readStream(await dispatching.send(bedrock(), { stream: true }))
  expect(seen).toMatchObject({ text, finishReasons: ['stop'], failure: null })
  const deltas = seen.chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta))
  expect(deltas.map(delta => delta.reasoning_content ?? '').join('')).toBe('Hm, the sea.')
  expect(seen.chunks.findLast(chunk => chunk.usage)!.usage).toMatchObject(usage)
  expect(upstream.requests[0]!.path).toBe(`/model/${encodeURIComponent(claude)}/converse-stream`)
})

test.each([false, true])('calls tools, and gets its seal back with the results; stream: %s', async stream => {
  upstream.respondWith(bedrockAnswer({ thinking, calls }, stream))
  const answered = await dispatching.send(bedrock(), { stream, tools })
  if (stream) {
    const { chunks, finishReasons } = await readStream(answered)
    const made = chunks.flatMap(({ choices }) => choices.flatMap(({ delta }) => delta.tool_calls ?? []))
    expect(made.flatMap(each => each.id ?? [])).toEqual(['call_1', 'call_2'])
    expect(made.map(each => each.function?.arguments ?? '').join('')).toBe(`${JSON.stringify(calls[0]!.args)}{}`)
    expect(finishReasons).toEqual(['tool_calls'])
    return
  }
  const { message, finish_reason } = completionOf(answered).choices[0]!
  expect(finish_reason).toBe('tool_calls')
  upstream.respondWith(bedrockAnswer({ text: 'A ship.' }))
  const messages = [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Look!' },
    message,
    { role: 'tool', tool_call_id: 'call_1', content: 'a ship' },
    { role: 'tool', tool_call_id: 'call_2', content: '' },
  ]
  await dispatching.send(bedrock(), { tools, messages, temperature: 0.5, stop: ['END'], tool_choice: 'required' })
  expect(bodyOf()).toEqual({
    system: [{ text: 'Be brief.' }],
    messages: [
      { role: 'user', content: [{ text: 'Look!' }] },
      {
        role: 'assistant',
        content: [
          { reasoningContent: { reasoningText: { text: 'Hm, the sea.', signature: thinking.seal } } },
          { toolUse: { toolUseId: 'call_1', name: 'look', input: calls[0]!.args } },
          { toolUse: { toolUseId: 'call_2', name: 'look', input: {} } },
        ],
      },
      {
        role: 'user',
        content: [
          { toolResult: { toolUseId: 'call_1', content: [{ text: 'a ship' }] } },
          { toolResult: { toolUseId: 'call_2', content: [{ text: 'The tool returned nothing.' }] } },
        ],
      },
    ],
    inferenceConfig: { maxTokens: 256, temperature: 0.5, stopSequences: ['END'] },
    toolConfig: {
      tools: [{ toolSpec: { name: 'look', inputSchema: { json: { type: 'object', properties: {} } } } }],
      toolChoice: { any: {} },
    },
  })
})

test('models of other vendors get neither seals nor settings of Claude', async () => {
  upstream.always(bedrockAnswer({ thinking, text: 'Hello.' }))
  const { message } = completionOf(await dispatching.send(bedrock())).choices[0]!
  const messages = [{ role: 'user', content: 'Hi' }, message, { role: 'user', content: 'And now?' }]
  const request = { messages, top_k: 5, reasoning_effort: 'high' }
  await dispatching.send(bedrock(claude), request)
  expect(bodyOf()).toMatchObject({
    outputConfig: { effort: 'high' },
    additionalModelRequestFields: { thinking: { type: 'adaptive' } },
  })
  expect(JSON.stringify(bodyOf())).toContain(thinking.seal)
  await dispatching.send(bedrock('amazon.nova-pro-v1:0'), request)
  expect(Object.keys(bodyOf())).toEqual(['messages', 'inferenceConfig'])
  expect(JSON.stringify(bodyOf())).not.toContain(thinking.seal)
  // Without the turn that was only reasoning, roles still alternate.
  const reasoning = { role: 'assistant', content: [{ type: 'thinking', thinking: 'Hm', signature: thinking.seal }] }
  const turns = [{ role: 'user', content: 'Hi' }, reasoning, { role: 'user', content: 'And now?' }]
  const job = messagesJob({ model: 'm', max_tokens: 9, messages: turns })
  const rolesAt = (model: string) => {
    const offer = bedrock(model)
    const body = JSON.parse(nativeTask(job, offer).requestBody(job, offer, 9)) as ConverseRequest
    return body.messages!.map(({ role }) => role)
  }
  expect([rolesAt('amazon.nova-pro-v1:0'), rolesAt(claude)]).toEqual([['user'], ['user', 'assistant', 'user']])
})

test('images go as bytes, and schemas as text', async () => {
  upstream.always(bedrockAnswer({ text: '{}' }))
  const body = {
    messages: [
      {
        role: 'user',
        content: [
          { type: 'image_url', image_url: { url: 'data:image/jpg;base64,aGk=' } },
          { type: 'text', text: 'What is it?' },
        ],
      },
    ],
    response_format: { type: 'json_schema', json_schema: { name: 'it', schema: { type: 'object' } } },
  }
  await dispatching.send(bedrock(), body)
  expect(bodyOf().messages![0]!.content).toEqual([
    { image: { format: 'jpeg', source: { bytes: 'aGk=' } } },
    { text: 'What is it?' },
  ])
  expect(bodyOf().outputConfig).toEqual({
    textFormat: {
      type: 'json_schema',
      structure: { jsonSchema: { schema: '{"type":"object","additionalProperties":false}', name: 'it' } },
    },
  })
})

test('cache points are blocks of their own, where writes to caches have a price', () => {
  const cache_control = { type: 'ephemeral', ttl: '1h' }
  const body = {
    ...{ model: 'public-model', max_tokens: 64 },
    system: [{ type: 'text', text: 'Be brief.', cache_control }],
    tools: [{ name: 'look', input_schema: { type: 'object' }, cache_control }],
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Look!', cache_control }] }],
  }
  const job = messagesJob(body)
  const pointsAt = (parts: ListedPrice['parts']) => {
    const prices = { ...{ input: 1n, output: 1n, perRequest: 0n, steps: [], windows: [] }, parts }
    const offer = bedrock(claude, pricesOf(prices, 'cloud'))
    const { system, toolConfig, messages } = JSON.parse(
      nativeTask(job, offer).requestBody(job, offer, 64),
    ) as ConverseRequest
    return [system!, toolConfig!.tools!, messages![0]!.content!].map(([, point]) => point)
  }
  const point = { cachePoint: { type: 'default' } }
  expect(pointsAt({ cache_read: 1n, cache_write: 2n })).toEqual([point, point, point])
  const long = { cachePoint: { type: 'default', ttl: '1h' } }
  expect(pointsAt({ cache_read: 1n, cache_write: 2n, cache_write_long: 3n })).toEqual([long, long, long])
  const plain = bedrock()
  expect(nativeTask(job, plain).requestBody(job, plain, 64)).not.toContain('cachePoint')
})

test.each([
  ['none', {}, ['cache_control']],
  ['those of five minutes', { cache_read: 1n, cache_write: 2n }, ['cache_control.ttl']],
  ['all', { cache_read: 1n, cache_write: 2n, cache_write_long: 3n }, []],
] as const)('hints to caches without a price are named as dropped: %s have one', (_, parts, names) => {
  const cache_control = { type: 'ephemeral', ttl: '1h' }
  const job = messagesJob({
    ...{ model: 'public-model', max_tokens: 64 },
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Look!', cache_control }] }],
  })
  const prices = { ...{ input: 1n, output: 1n, perRequest: 0n, steps: [], windows: [] }, parts }
  const atBedrock = bedrock(claude, pricesOf(prices, 'local'))
  const atAnthropic: Offer = { ...atBedrock, speaks: ['messages'] }
  for (const offer of [atBedrock, atAnthropic]) expect(nativeDroppedFields(job, offer)).toEqual(names)
})

test('a request without tools allowed sends none, unless an earlier turn called one', async () => {
  upstream.always(bedrockAnswer({ text: 'Hello.' }))
  await dispatching.send(bedrock(), { tools, tool_choice: 'none' })
  expect(bodyOf().toolConfig).toBe(undefined)
  const assistant = {
    role: 'assistant',
    content: null,
    tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }],
  }
  const messages = [
    { role: 'user', content: 'Look!' },
    assistant,
    { role: 'tool', tool_call_id: 'call_1', content: 'x' },
  ]
  await dispatching.send(bedrock(), { tools, tool_choice: 'none', messages })
  expect(bodyOf().toolConfig!.tools).toHaveLength(1)
})

describe('what Converse cannot express', () => {
  const image = (url: string) => [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }]
  const file = (data: string) => [{ role: 'user', content: [{ type: 'file', file: { file_data: data } }] }]
  test.each<[what: string, body: object, dialect: string | null]>([
    ['several choices', { n: 2 }, null],
    ['log probabilities', { logprobs: true }, null],
    ['an image by its address', { messages: image('https://example.com/a.png') }, null],
    ['a document by its address', { messages: file('https://example.com/a.pdf') }, null],
    ['a document as a data: URL', { messages: file('DATA:application/pdf;base64,aGk=') }, 'converse'],
    ['a document as base64', { messages: file('aGk=') }, 'converse'],
    ['an image as data', { messages: image('data:image/png;base64,aGk=') }, 'converse'],
    ['stop sequences', { stop: ['x'] }, 'converse'],
  ])('%s', (_what, body, dialect) => expect(dialectAt(['converse'], jobOf(body))).toBe(dialect))

  test('an image or document of messages by its address, in a tool result too', () => {
    const url = { type: 'url', url: 'https://example.com/a' }
    const data = { type: 'base64', media_type: 'image/png', data: 'aGk=' }
    const call = { role: 'assistant', content: [{ type: 'tool_use', id: 'c', name: 'look', input: {} }] }
    const dialectOf = (block: object, ...before: object[]) => {
      const messages = [{ role: 'user', content: 'Hi' }, ...before, { role: 'user', content: [block] }]
      return dialectAt(['converse'], messagesJob({ model: 'm', max_tokens: 9, messages }))
    }
    const result = (source: object) => ({
      ...{ type: 'tool_result', tool_use_id: 'c' },
      content: [{ type: 'image', source }],
    })
    expect([dialectOf({ type: 'image', source: url }), dialectOf({ type: 'document', source: url })]).toEqual([
      null,
      null,
    ])
    expect([dialectOf(result(url), call), dialectOf(result(data), call)]).toEqual([null, 'converse'])
  })

  test('hints are dropped by name', () => {
    const job = jobOf({
      seed: 1,
      user: 'u',
      parallel_tool_calls: false,
      tools,
      verbosity: 'low',
      prompt_cache_key: 'k',
    })
    expect(nativeDroppedFields(job, bedrock()).toSorted()).toEqual([
      'parallel_tool_calls',
      'prompt_cache_key',
      'seed',
      'user',
      'verbosity',
    ])
  })
})

test.each<[code: number, type: string, message: string, error: string, outcomes: string[]]>([
  [400, 'ValidationException', 'The field x is not allowed.', 'upstream_rejected', []],
  [400, 'ValidationException', 'Input is too long for requested model.', 'context_length_exceeded', []],
  [400, 'ValidationException', 'The provided model identifier is invalid.', 'all_hosters_failed', ['server_error']],
  [403, 'AccessDeniedException', 'Signature expired.', 'all_hosters_failed', ['credential_rejected']],
  [429, 'ThrottlingException', 'Too many requests.', 'all_hosters_failed', ['busy']],
  [424, 'ModelErrorException', 'The model failed.', 'all_hosters_failed', ['server_error']],
  [503, 'ServiceUnavailableException', 'Sorry.', 'all_hosters_failed', ['server_error']],
])('answers %i %s: %s', async (code, type, message, error, outcomes) => {
  upstream.always(bedrockError(code, type, message))
  for (const stream of [false, true]) {
    const failure = await unserved(dispatching.send(bedrock(), { stream }))
    expect(failure.code).toBe(error)
  }
  expect(dispatching.reports).toEqual(
    [...outcomes, ...outcomes].map(outcome => `failure bedrock/public-model ${outcome}`),
  )
})

test.each([
  ['throttlingException', 'busy'],
  ['modelStreamErrorException', 'server_error'],
  ['internalServerException', 'server_error'],
  ['serviceUnavailableException', 'server_error'],
])('the exception %s before the content fails over, and after it breaks the stream', async (type, outcome) => {
  const text = 'Blue and wide.'
  const frames = streamFrames({ text })
  upstream.respondWith(
    bedrockStream([frames[0]!, exceptionFrame(type, 'Sorry.')]),
    bedrockStream([...frames.slice(0, 3), exceptionFrame(type, 'Sorry.')]),
  )
  const offers = [bedrock(), offerAt(spare.baseUrl, { name: 'spare' })]
  const answered = await dispatching.send(offers, { stream: true })
  expect(answered.attempts.map(attempt => attempt.outcome)).toEqual([outcome, 'answered'])
  await readStream(answered)
  const seen = await readStream(await dispatching.send(bedrock(), { stream: true }))
  expect([seen.text, seen.finishReasons]).toEqual(['Blue and ', []])
  expect(seen.failure).toMatchObject({ outcome })
})

const damaged = (frames: readonly Buffer[]) => {
  const bytes = Buffer.concat(frames)
  bytes[bytes.length - 6]! ^= 1
  return [bytes]
}
const hello = streamFrames({ text: 'Hello you.' })

test.each<[what: string, frames: Buffer[]]>([
  ['a damaged frame', damaged(hello.slice(0, 2))],
  ['a frame of 4 GB', [Buffer.from('ffffffff00000020', 'hex'), Buffer.from('00000000', 'hex')]],
  ['events without content', Array.from({ length: 5_000 }, () => eventFrame('messageStart', { p: 'x'.repeat(1_000) }))],
  ['no event at all', []],
  ['text that is no stream of frames', [Buffer.from('data: {"text":"Hello"}\n\n')]],
  [
    'an answer that the model spoiled',
    [...hello.slice(0, 1), eventFrame('messageStop', { stopReason: 'malformed_tool_use' })],
  ],
  ['payloads that are no JSON', [eventFrame('messageStart', {}), Buffer.from(hello[1]!.subarray(0, 20))]],
])('%s is a fault of the server: the next one answers', async (_what, frames) => {
  upstream.always(bedrockStream(frames))
  const offers = [bedrock(), offerAt(spare.baseUrl, { name: 'spare' })]
  const answered = await dispatching.send(offers, { stream: true })
  const { failure } = await readStream(answered)
  expect(failure).toBe(null)
  expect(answered.offer.offerId).toBe('spare/public-model')
})

test('a cut in mid-stream is a failure; after the end of the answer it costs only the usage', async () => {
  const frames = streamFrames({ text: 'Blue and wide.' })
  upstream.respondWith(bedrockStream(frames.slice(0, 3)), bedrockStream(frames.slice(0, -1)))
  const cut = await readStream(await dispatching.send(bedrock(), { stream: true }))
  expect([cut.text, cut.failure]).toEqual(['Blue and ', expect.objectContaining({ outcome: 'server_error' })])
  const whole = await readStream(await dispatching.send(bedrock(), { stream: true }))
  expect([whole.text, whole.finishReasons, whole.usage, whole.failure]).toEqual([
    'Blue and wide.',
    ['stop'],
    null,
    null,
  ])
})

test('nothing but the usage is read after the end of the answer', async () => {
  const frames = streamFrames({ text: 'Blue.' })
  upstream.respondWith(bedrockStream([...frames.slice(0, -1), ...streamFrames({ text: 'Red.' })]))
  const { text, finishReasons, usage } = await readStream(await dispatching.send(bedrock(), { stream: true }))
  expect([text, finishReasons, usage?.[1]]).toEqual(['Blue.', ['stop'], 7])
})

test('filters of Bedrock end an answer as refused', async () => {
  const frames = streamFrames({ text: 'Blue.' })
  upstream.respondWith(
    bedrockStream([...frames.slice(0, -2), eventFrame('messageStop', { stopReason: 'guardrail_intervened' })]),
  )
  const { finishReasons } = await readStream(await dispatching.send(bedrock(), { stream: true }))
  expect(finishReasons).toEqual(['content_filter'])
})

test('a bearer key works without signatures', async () => {
  upstream.respondWith(bedrockAnswer({ text: 'Hello.' }))
  const offer = bedrock()
  const { credential: _, ...endpoint } = { ...offer.endpoint, apiKey: 'bedrock-key' }
  await dispatching.send({ ...offer, endpoint })
  expect(upstream.requests[0]!.headers.authorization).toBe('Bearer bedrock-key')
})
