import { describe, expect, test } from 'vitest'
import type { ChatChunk, ChatCompletion } from '../../src/base/domain/completion.ts'
import { keyHeaderAt } from '../../src/base/domain/endpoint-defaults.ts'
import type { Answer } from '../../src/base/domain/handoff.ts'
import type { Offer } from '../../src/base/domain/offer.ts'
import { dialectAt } from '../../src/base/domain/upstream-dialect.ts'
import { type Unserved, UpstreamFailure } from '../../src/base/domain/upstream-failure.ts'
import { nativeDroppedFields } from '../../src/wire/dialects/native-task.ts'
import { answer, sse, status } from '../harness/scripted-upstream.ts'
import {
  type NativeDialect,
  type VendorAnswer,
  vendorAnswer,
  vendorBreak,
  vendorCut,
  vendorError,
  vendorUsage,
} from '../harness/scripted-vendors.ts'
import { useUpstream } from '../harness/use-test-app.ts'
import { jobOf, offerAt, readStream, useDispatching } from './dispatching.ts'

const dialects: readonly NativeDialect[] = ['messages', 'gemini', 'responses']
const upstream = useUpstream('test')
const second = useUpstream('test')
const dispatching = useDispatching('test')

const tools = [{ type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }]
const call = { id: 'call_1', name: 'look', args: { at: 'sea', deep: [1, { x: 'ü' }] } }

function native(dialect: NativeDialect, baseUrl = upstream.baseUrl, more: Partial<Offer> = {}): Offer {
  const offer = offerAt(baseUrl, { name: `${dialect}-${new URL(baseUrl).port}` })
  const quirks = { ...offer.endpoint.dialect, keyHeader: keyHeaderAt(baseUrl, dialect) }
  return { ...offer, endpoint: { ...offer.endpoint, dialect: quirks }, speaks: [dialect], ...more }
}

function completionOf(answered: Answer): ChatCompletion {
  if (answered.kind !== 'whole') throw new Error('The answer is not whole.')
  return answered.completion
}

/** The message that a client would put together from the chunks of a stream. */
function messageOf(chunks: readonly ChatChunk[]) {
  const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta))
  const joined = (key: string) => deltas.map(delta => delta[key] ?? '').join('')
  const calls = deltas.flatMap(delta => delta.tool_calls ?? []) as {
    id?: string
    function?: { name?: string; arguments?: string }
  }[]
  return {
    content: joined('content'),
    reasoning: joined('reasoning_content'),
    details: deltas.flatMap(delta => (delta.reasoning_details as object[] | undefined) ?? []),
    ids: calls.flatMap(each => each.id ?? []),
    names: calls.flatMap(each => each.function?.name ?? []),
    arguments: calls.map(each => each.function?.arguments ?? '').join(''),
  }
}

const unserved = (sending: Promise<unknown>): Promise<Unserved> =>
  sending.then(
    () => Promise.reject(new Error('the request was answered')),
    failure => failure,
  )

describe.each(dialects)('a server of %s', dialect => {
  const thinking = { text: 'Hm, the sea.', seal: Buffer.from('a seal').toString('base64') }

  test('answers whole, with usage in parts', async () => {
    upstream.respondWith(vendorAnswer(dialect, { thinking, text: 'Blue and wide.' }))
    const { choices, usage } = completionOf(await dispatching.send(native(dialect)))
    expect(choices[0]).toMatchObject({
      message: { role: 'assistant', content: 'Blue and wide.' },
      finish_reason: 'stop',
    })
    expect(choices[0]!.message.reasoning_content).toBe('Hm, the sea.')
    expect(usage).toEqual(vendorUsage)
  })

  test.each([false, true])('answers in a stream, split at every byte: %s', async split => {
    const text = 'Blue "and" wide: ü, \n漢 😀.'
    upstream.respondWith(vendorAnswer(dialect, { thinking, text }, split))
    const seen = await readStream(await dispatching.send(native(dialect), { stream: true }))
    expect(seen.failure).toBe(null)
    expect(messageOf(seen.chunks)).toMatchObject({ content: text, reasoning: 'Hm, the sea.' })
    expect(seen.finishReasons).toEqual(['stop'])
    expect(seen.chunks.findLast(chunk => chunk.usage)!.usage).toEqual(vendorUsage)
    expect(seen.chunks.every(({ id, model }) => id !== 'msg_1' && model === 'public-model')).toBe(true)
  })

  test.each([false, true])('calls tools, in a stream: %s', async stream => {
    const second = { id: 'call_2', name: 'look', args: {} }
    upstream.respondWith(vendorAnswer(dialect, { thinking, calls: [call, second] }, stream))
    const answered = await dispatching.send(native(dialect), { stream, tools })
    if (stream) {
      const { chunks, finishReasons } = await readStream(answered)
      expect(messageOf(chunks)).toMatchObject({
        ids: ['call_1', 'call_2'],
        names: ['look', 'look'],
        arguments: `${JSON.stringify(call.args)}{}`,
      })
      expect(finishReasons).toEqual(['tool_calls'])
    } else {
      const { message, finish_reason } = completionOf(answered).choices[0]!
      const made = message.tool_calls as { id: string; function: { name: string; arguments: string } }[]
      expect(made.map(each => [each.id, each.function.name, JSON.parse(each.function.arguments)])).toEqual([
        ['call_1', 'look', call.args],
        ['call_2', 'look', {}],
      ])
      expect(finish_reason).toBe('tool_calls')
    }
  })

  test('gets its seal back with the next turn, and no other server does', async () => {
    upstream.respondWith(vendorAnswer(dialect, { thinking, calls: [call] }))
    const { message } = completionOf(await dispatching.send(native(dialect), { tools })).choices[0]!
    const messages = [
      { role: 'user', content: 'Look!' },
      message,
      { role: 'tool', tool_call_id: 'call_1', content: 'a ship' },
    ]
    for (const [index, other] of dialects.entries()) {
      upstream.respondWith(vendorAnswer(other, { text: 'A ship.' }))
      await dispatching.send(native(other), { tools, messages })
      const { rawBody } = upstream.requests[index + 1]!
      expect([other, rawBody.includes(thinking.seal)]).toEqual([other, other === dialect])
      expect(rawBody).toContain('a ship')
      expect(rawBody).not.toContain('sy1.')
    }
  })

  test('says that the limit was reached', async () => {
    upstream.always(vendorAnswer(dialect, { text: 'Blue and', limitReached: true }))
    const whole = await dispatching.send(native(dialect))
    expect(completionOf(whole).choices[0]!.finish_reason).toBe('length')
    const { finishReasons } = await readStream(await dispatching.send(native(dialect), { stream: true }))
    expect(finishReasons).toEqual(['length'])
  })

  test.each([
    [400, 'The field x is not allowed.', 'upstream_rejected', []],
    [400, 'prompt is too long: 200001 tokens > 200000 maximum context length', 'context_length_exceeded', []],
    [401, 'Wrong key.', 'all_hosters_failed', ['credential_rejected']],
    [429, 'Slow down.', 'all_hosters_failed', ['busy']],
    [529, 'Overloaded.', 'all_hosters_failed', ['busy']],
  ])('answers %i: %s', async (code, message, error, outcomes) => {
    upstream.always(vendorError(dialect, code, message))
    for (const stream of [false, true]) {
      const failure = await unserved(dispatching.send(native(dialect), { stream }))
      expect(failure.code).toBe(error)
    }
    expect(dispatching.reports).toEqual(
      [...outcomes, ...outcomes].map(outcome => `failure ${native(dialect).offerId} ${outcome}`),
    )
  })

  test('breaks off in mid-stream', async () => {
    upstream.respondWith(vendorCut(dialect, { text: 'Blue and wide and deep.' }, dialect === 'gemini' ? 2 : 6))
    const { text, failure, finishReasons } = await readStream(await dispatching.send(native(dialect), { stream: true }))
    expect(text).not.toBe('')
    expect('Blue and wide and deep.'.startsWith(text)).toBe(true)
    expect(failure).toMatchObject({ outcome: 'server_error' })
    expect(finishReasons).toEqual([])
  })

  test.each([false, true])('is replaced by a server of chat, and replaces one; stream: %s', async stream => {
    const chat = offerAt(second.baseUrl, { name: 'chat' })
    const text = async (answered: Answer) =>
      stream ? (await readStream(answered)).text : completionOf(answered).choices[0]!.message.content
    upstream.respondWith(vendorError(dialect, 529, 'Overloaded.'), vendorAnswer(dialect, { text: 'Native.' }))
    second.respondWith(answer({ text: 'Chat.' }), status(500))
    expect(await text(await dispatching.send([native(dialect), chat], { stream }))).toBe('Chat.')
    expect(await text(await dispatching.send([chat, native(dialect)], { stream }))).toBe('Native.')
    expect(second.requests.map(({ path }) => path)).toEqual(['/v1/chat/completions', '/v1/chat/completions'])
  })

  test('that ignores stream: true is read all the same', async () => {
    upstream.respondWith((request, response) =>
      vendorAnswer(dialect, { text: 'Whole.' })(
        { ...request, path: '', body: { ...request.body, stream: false } },
        response,
      ),
    )
    const { text, finishReasons, usage } = await readStream(await dispatching.send(native(dialect), { stream: true }))
    expect([text, finishReasons, usage]).toEqual(['Whole.', ['stop'], [30, 7]])
  })
})

describe('an error inside of a stream', () => {
  const inStream: [NativeDialect, object][] = [
    ['messages', { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }],
    ['gemini', { error: { code: 503, message: 'The model is overloaded.', status: 'UNAVAILABLE' } }],
    [
      'responses',
      {
        type: 'response.failed',
        response: { status: 'failed', output: [], error: { code: 'server_error', message: 'Sorry.' } },
      },
    ],
  ]

  test.each(inStream)(
    'of %s fails over before the first content, and breaks the answer after it',
    async (dialect, error) => {
      const events = { before: sse([error]), after: vendorBreak(dialect, { text: 'Blue and wide.' }, 6, error) }
      upstream.respondWith(events.before, events.after)
      second.respondWith(vendorAnswer(dialect, { text: 'Second.' }))
      const offers = [native(dialect), native(dialect, second.baseUrl)]
      expect((await readStream(await dispatching.send(offers, { stream: true }))).text).toBe('Second.')
      const { text, failure } = await readStream(await dispatching.send(offers, { stream: true }))
      expect('Blue and wide.'.startsWith(text) && text !== '').toBe(true)
      expect(failure).toBeInstanceOf(UpstreamFailure)
    },
  )
})

test('servers of two dialects fail over to a third', async () => {
  upstream.respondWith(vendorError('messages', 529, 'Overloaded.'), vendorError('gemini', 429, 'Slow down.'))
  second.respondWith(vendorAnswer('responses', { text: 'Third.' }))
  const offers = [native('messages'), native('gemini'), native('responses', second.baseUrl)]
  const answered = await dispatching.send(offers)
  expect(completionOf(answered).choices[0]!.message.content).toBe('Third.')
  expect(answered.attempts.map(({ outcome }) => outcome)).toEqual(['busy', 'busy', 'answered'])
})

describe('a request', () => {
  const body = {
    messages: [
      { role: 'developer', content: 'Be brief.' },
      { role: 'user', content: [{ type: 'text', text: 'Look!' }] },
      {
        role: 'assistant',
        content: null,
        tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"at":"sea"}' } }],
      },
      { role: 'tool', tool_call_id: 'call_1', content: 'a ship' },
    ],
    tools,
    tool_choice: 'auto',
    temperature: 0.5,
    max_tokens: 99,
  }
  const sent = async (dialect: NativeDialect, stream: boolean) => {
    upstream.respondWith(vendorAnswer(dialect, { text: 'A ship.' }))
    const answered = await dispatching.send(native(dialect), { ...body, stream })
    if (stream) await readStream(answered)
    return upstream.next()
  }

  test('to Anthropic', async () => {
    const { path, headers, body: seen } = await sent('messages', true)
    expect(path).toBe('/v1/messages')
    expect(headers).toMatchObject({ 'x-api-key': 'upstream-secret', 'anthropic-version': '2023-06-01' })
    expect(headers.authorization).toBe(undefined)
    expect(seen).toEqual({
      model: 'their-model',
      max_tokens: 256,
      stream: true,
      temperature: 0.5,
      system: [{ type: 'text', text: 'Be brief.' }],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'Look!' }] },
        { role: 'assistant', content: [{ type: 'tool_use', id: 'call_1', name: 'look', input: { at: 'sea' } }] },
        {
          role: 'user',
          content: [{ type: 'tool_result', tool_use_id: 'call_1', content: [{ type: 'text', text: 'a ship' }] }],
        },
      ],
      tools: [{ name: 'look', input_schema: { type: 'object', properties: {} } }],
      tool_choice: { type: 'auto' },
    })
  })

  test.each([
    [true, '/v1/models/their-model:streamGenerateContent?alt=sse'],
    [false, '/v1/models/their-model:generateContent'],
  ])('to Google, stream: %s', async (stream, expectedPath) => {
    const { path, headers, body: seen } = await sent('gemini', stream)
    expect([path, headers['x-goog-api-key'], headers.authorization]).toEqual([
      expectedPath,
      'upstream-secret',
      undefined,
    ])
    expect(seen).toMatchObject({
      systemInstruction: { parts: [{ text: 'Be brief.' }] },
      generationConfig: { maxOutputTokens: 256, temperature: 0.5 },
    })
    expect(JSON.stringify(seen)).toContain('skip_thought_signature_validator')
  })

  test('to OpenAI', async () => {
    const { path, headers, body: seen } = await sent('responses', true)
    expect([path, headers.authorization]).toEqual(['/v1/responses', 'Bearer upstream-secret'])
    expect(seen).toMatchObject({
      model: 'their-model',
      instructions: 'Be brief.',
      max_output_tokens: 256,
      store: false,
      include: ['reasoning.encrypted_content'],
      temperature: 0.5,
    })
    expect((seen.input as { type: string }[]).map(({ type }) => type)).toEqual([
      'message',
      'function_call',
      'function_call_output',
    ])
  })
})

test('a client of chat gets calls of its custom tools back as such', async () => {
  const custom = [{ type: 'custom', custom: { name: 'run', description: 'Runs code.' } }]
  const calls: VendorAnswer['calls'] = [{ id: 'call_1', name: 'run', args: { input: 'ls -l' } }]
  for (const dialect of ['messages', 'gemini'] as const) {
    upstream.respondWith(vendorAnswer(dialect, { calls }))
    const { message } = completionOf(await dispatching.send(native(dialect), { tools: custom })).choices[0]!
    expect(message.tool_calls).toEqual([{ id: 'call_1', type: 'custom', custom: { name: 'run', input: 'ls -l' } }])
  }
})

test('reasoning of another account of OpenAI stays away', async () => {
  upstream.always(vendorAnswer('responses', { thinking: { text: 'Hm.', seal: 'their-seal' }, text: 'Yes.' }))
  const { message } = completionOf(await dispatching.send(native('responses'))).choices[0]!
  const own = native('responses')
  const other = { ...own, endpoint: { ...own.endpoint, apiKey: 'another-secret' } }
  const messages = [{ role: 'user', content: 'Is it?' }, message, { role: 'user', content: 'Sure?' }]
  for (const offer of [own, other]) await dispatching.send(offer, { messages })
  expect(upstream.requests.slice(1).map(({ rawBody }) => rawBody.includes('their-seal'))).toEqual([true, false])
})

describe('what a dialect cannot express', () => {
  const audio = [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } }] }]

  test.each([
    [{}, ['messages', 'gemini', 'responses']],
    [{ n: 2 }, []],
    [{ logprobs: true }, []],
    [{ stop: ['x'] }, ['messages', 'gemini']],
    [{ messages: audio }, ['gemini']],
  ])('rules its offers out: %j', (body, expected) => {
    expect(dialects.filter(dialect => dialectAt([dialect], jobOf(body)) === dialect)).toEqual(expected)
    const fallback = Object.keys(body).length === 0 ? 'responses' : 'chat'
    expect(dialectAt(['responses', 'chat'], jobOf(body))).toBe(fallback)
  })

  test.each([
    ['messages', ['logit_bias', 'seed', 'presence_penalty', 'response_format']],
    ['gemini', ['logit_bias']],
    ['responses', ['logit_bias', 'presence_penalty', 'seed']],
  ] as const)('is named on the receipt where it is a hint: %s', (dialect, expected) => {
    const job = jobOf({
      ...{ logit_bias: { 5: 1 }, seed: 5, presence_penalty: 1, temperature: 1 },
      response_format: { type: 'json_object' },
    })
    expect(nativeDroppedFields(job, native(dialect)).toSorted()).toEqual([...expected].toSorted())
    const quirks = { dropFields: ['temperature'], exclusiveReasoning: false }
    expect(nativeDroppedFields(job, native(dialect, upstream.baseUrl, { quirks }))).toContain('temperature')
  })
})
