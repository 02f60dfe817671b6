import { describe, expect, test } from 'vitest'
import { chatChunkSchema } from '../../src/wire/dialects/chat/chat-completion-schema.ts'
import { testOffer } from '../harness/app.ts'
import { readEventStream, readUntil } from '../harness/event-stream.ts'
import { rawRequest } from '../harness/raw-request.ts'
import {
  answer,
  type Behaviour,
  chunk,
  contentChunk,
  hangUp,
  sse,
  status,
  streamEvents,
  usageOf,
} from '../harness/scripted-upstream.ts'
import { GENEROUS_TIMEOUTS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const second = useUpstream()
const gateway = useTestApp(() => ({
  offers: [
    testOffer(upstream.baseUrl),
    testOffer(second.baseUrl, { modelId: 'two-servers' }),
    testOffer(upstream.baseUrl, { modelId: 'two-servers', price: { inputPicoPerToken: 1n, outputPicoPerToken: 1n } }),
    testOffer(upstream.baseUrl, {
      modelId: 'short-idle-timeout',
      endpoint: { timeouts: { ...GENEROUS_TIMEOUTS, idleMs: 500 } },
    }),
    testOffer(upstream.baseUrl, {
      modelId: 'free-model',
      price: { inputPicoPerToken: 0n, outputPicoPerToken: 0n },
      contextTokens: 2 ** 30,
      maxOutputTokens: 2 ** 29,
    }),
  ],
  yaml: 'server: { ping_seconds: 1 }',
}))

const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }], stream: true }

test('a stream starts with the role, keeps one id and model, and ends with one finish_reason and [DONE]', async () => {
  const customer = await gateway.customer()
  upstream.respondWith(answer({ text: 'one two three', id: 'chatcmpl-theirs' }))
  const response = await gateway.chat(customer, hello)
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  expect(response.headers.get('cache-control')).toBe('no-cache, no-transform')
  expect(response.headers.get('x-accel-buffering')).toBe('no')
  expect(response.headers.get('content-encoding')).toBeNull()
  const stream = await readEventStream(response)
  expect(stream).toMatchObject({ done: true, text: 'one two three', finishReasons: ['stop'], usage: null })
  expect(stream.chunks[0]!.choices).toEqual([
    { index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null },
  ])
  const id = `chatcmpl-${response.headers.get('x-request-id')}`
  for (const each of stream.chunks) {
    expect(each).toMatchObject({ id, object: 'chat.completion.chunk', model: 'test-model' })
    expect(Object.keys(each)).not.toContain('usage')
  }
  expect(new Set(stream.chunks.map(({ created }) => created)).size).toBe(1)
})

test('a stream with many more bytes than text, such as logprobs, is served to its end and billed', async () => {
  const customer = await gateway.customer()
  const [role, ...rest] = streamEvents({ pieces: ['one'], usage: usageOf(10, 5) })
  const logprobs = { content: [{ token: 'two', bytes: 'x'.repeat(300_000) }] }
  const event = { ...chunk({ content: 'two' }), choices: [{ index: 0, delta: { content: 'two' }, logprobs }] }
  upstream.respondWith(sse([role, ...Array(70).fill(event), ...rest]))
  const response = await gateway.chat(customer, { ...hello, logprobs: true, top_logprobs: 20, max_tokens: 4_000 })
  let bytes = 0
  let tail = ''
  for await (const piece of response.body!) {
    bytes += piece.length
    tail = (tail + Buffer.from(piece).toString('latin1')).slice(-100)
  }
  expect(bytes).toBeGreaterThan(20_000_000)
  expect(tail).toMatch(/\[DONE\]\n\n$/)
  expect(await gateway.settled(customer, 1)).toMatchObject([{ outcome: 'served', cost_nanos: 20_000n }])
})

test('usage is always requested from the upstream and shown only on request, in a separate last chunk', async () => {
  const customer = await gateway.customer()
  upstream.respondWith(answer({ usage: usageOf(12, 6) }), answer({ usage: usageOf(12, 6) }))
  const sentBefore = upstream.requests.length
  const without = await readEventStream(
    await gateway.chat(customer, { ...hello, stream_options: { include_usage: false, include_obfuscation: false } }),
  )
  expect(without.usage).toBeNull()
  expect(upstream.requests[sentBefore]!.body.stream_options).toEqual({ include_usage: true })

  const stream = await readEventStream(
    await gateway.chat(customer, { ...hello, stream_options: { include_usage: true } }),
  )
  expect(stream.chunks.at(-1)).toMatchObject({
    choices: [],
    usage: { prompt_tokens: 12, completion_tokens: 6, total_tokens: 18, cost_usd: 0.000024 },
  })
  expect(stream.chunks.slice(0, -1).every(({ usage }) => usage === null)).toBe(true)
  expect((await gateway.usage(customer)).map(row => row.cost_nanos)).toEqual([24_000n, 24_000n])
})

test('tool calls carry index, id and type once, and their arguments in pieces', async () => {
  const customer = await gateway.customer()
  const toolCalls = [
    { id: 'call_a', name: 'weather', arguments: '{"place":"Oslo"}' },
    { id: 'call_b', name: 'time', arguments: '{}' },
  ]
  upstream.respondWith(answer({ toolCalls }))
  const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }]
  const stream = await readEventStream(await gateway.chat(customer, { ...hello, tools }))
  const deltas = stream.chunks.flatMap(({ choices }) => choices.flatMap(({ delta }) => delta.tool_calls ?? []))
  expect(
    deltas.filter(({ id }) => id !== undefined).map(({ index, id, type, function: f }) => [index, id, type, f?.name]),
  ).toEqual([
    [0, 'call_a', 'function', 'weather'],
    [1, 'call_b', 'function', 'time'],
  ])
  for (const [index, call] of toolCalls.entries()) {
    const pieces = deltas.filter(delta => delta.index === index).map(delta => delta.function?.arguments ?? '')
    expect(pieces.join('')).toBe(call.arguments)
  }
  expect(stream).toMatchObject({ done: true, finishReasons: ['tool_calls'] })
})

test('every chunk fits its schema in the OpenAPI document: text, tool calls and usage', async () => {
  const customer = await gateway.customer()
  const toolCalls = [{ id: 'call_a', name: 'weather', arguments: '{"place":"Oslo"}' }]
  for (const options of [{ text: 'one two three' }, { toolCalls }]) {
    upstream.respondWith(answer(options))
    const body = { ...hello, stream_options: { include_usage: true } }
    const { chunks, done } = await readEventStream(await gateway.chat(customer, body))
    expect(done).toBe(true)
    expect(chunks.length).toBeGreaterThan(3)
    for (const each of chunks) expect(chatChunkSchema.parse(each)).toEqual(each)
  }
})

test('each of n choices has its role and its finish_reason', async () => {
  const customer = await gateway.customer()
  const both = (index: number, delta: object, finish_reason: string | null = null) => ({
    choices: [{ index, delta, finish_reason }],
  })
  upstream.respondWith(
    sse([
      both(1, { content: 'B' }),
      both(0, { content: 'A' }),
      both(2, { content: 'not requested' }),
      both(0, {}, 'stop'),
      both(1, {}, 'length'),
      { choices: [], usage: usageOf(5, 2) },
      '[DONE]',
    ]),
  )
  const stream = await readEventStream(await gateway.chat(customer, { ...hello, n: 2 }))
  const of = (index: number) => stream.chunks.flatMap(({ choices }) => choices.filter(choice => choice.index === index))
  for (const [index, text] of ['A', 'B'].entries()) {
    expect(of(index)[0]!.delta).toEqual({ role: 'assistant', content: '' })
    expect(
      of(index)
        .map(({ delta }) => delta.content ?? '')
        .join(''),
    ).toBe(text)
    expect(of(index).filter(choice => choice.finish_reason !== null).length).toBe(1)
  }
  expect(of(2)).toEqual([])
})

test('a cut at max_tokens ends each started choice once', async () => {
  const customer = await gateway.customer()
  const part = (index: number, content: string, finish_reason: string | null = null) => ({
    choices: [{ index, delta: { content }, finish_reason }],
  })
  const tooMuch = Array.from({ length: 60 }, () => part(2, 'some more words of it '))
  const begun = [part(0, 'A'), part(1, 'B'), part(2, 'C'), part(1, '', 'stop')]
  upstream.respondWith(sse([...begun, ...tooMuch, part(3, 'too late')], { ending: 'stall' }))
  const stream = await readEventStream(await gateway.chat(customer, { ...hello, n: 4, max_tokens: 5 }))
  expect(await upstream.requests.at(-1)!.aborted).toBe(true)
  const choices = stream.chunks.flatMap(chunk => chunk.choices)
  const endings = choices.filter(choice => choice.finish_reason !== null)
  expect(endings.map(choice => [choice.index, choice.finish_reason])).toEqual([
    [1, 'stop'],
    [0, 'length'],
    [2, 'length'],
  ])
  for (const { index } of endings)
    expect(choices.findLast(choice => choice.index === index)).toBe(endings.find(end => end.index === index))
  expect(choices.map(choice => choice.index)).not.toContain(3)
  expect(stream.done).toBe(true)
  expect(await gateway.usage(customer)).toMatchObject([
    { outcome: 'served', finish_reason: 'length', output_tokens: 20 },
  ])
})

test('n choices that each reach max_tokens are not cut', async () => {
  const customer = await gateway.customer()
  const part = (index: number, content: string, finish_reason: string | null = null) => ({
    choices: [{ index, delta: { content }, finish_reason }],
  })
  const words = Array.from({ length: 20 }, () => [0, 1, 2, 3].map(index => part(index, ' word'))).flat()
  const ends = [0, 1, 2, 3].map(index => part(index, '', 'length'))
  upstream.respondWith(sse([...words, ...ends, { choices: [], usage: usageOf(5, 80) }, '[DONE]']))
  const stream = await readEventStream(await gateway.chat(customer, { ...hello, n: 4, max_tokens: 20 }))
  const choices = stream.chunks.flatMap(chunk => chunk.choices)
  for (const index of [0, 1, 2, 3]) {
    const own = choices.filter(choice => choice.index === index)
    expect(own.map(({ delta }) => delta.content ?? '').join('')).toBe(' word'.repeat(20))
  }
  expect(await gateway.usage(customer)).toMatchObject([{ outcome: 'served', output_tokens: 80 }])
})

test('reasoning and logprobs are forwarded', async () => {
  const customer = await gateway.customer()
  const logprobs = { content: [{ token: 'Yes', logprob: -0.1, bytes: null, top_logprobs: [] }] }
  upstream.respondWith(
    sse([
      chunk({ reasoning_content: 'Hm.' }),
      { choices: [{ index: 0, delta: { content: 'Yes' }, logprobs, finish_reason: null }] },
      chunk({}, 'stop'),
      '[DONE]',
    ]),
  )
  const { chunks } = await readEventStream(await gateway.chat(customer, hello))
  const choices = chunks.flatMap(each => each.choices)
  expect(choices.some(({ delta }) => delta.reasoning_content === 'Hm.')).toBe(true)
  expect(choices.some(choice => JSON.stringify(choice.logprobs) === JSON.stringify(logprobs))).toBe(true)
})

test('pings fill the wait before the first token and the gaps between chunks', async () => {
  const customer = await gateway.customer()
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  upstream.respondWith(
    sse(streamEvents({ text: 'one two' }), {
      beforeEvent: index => (index === 1 ? gates[0]!.promise : index === 2 ? gates[1]!.promise : undefined),
    }),
  )
  const response = await gateway.chat(customer, hello)
  expect(response.status).toBe(200)
  const reader = response.body!.getReader()
  expect(await readUntil(reader, ': ping\n\n')).toBe(': ping\n\n')
  gates[0]!.resolve()
  expect(await readUntil(reader, 'one')).toContain('"role":"assistant"')
  expect(await readUntil(reader, ': ping\n\n')).not.toContain('two')
  gates[1]!.resolve()
  expect(await readUntil(reader, '[DONE]')).toContain('two')
})

test('a failure after the first ping is an error chunk with its error code', async () => {
  const customer = await gateway.customer()
  const gate = Promise.withResolvers<void>()
  const late: Behaviour = async (request, response) => {
    await gate.promise
    await status(500)(request, response)
  }
  upstream.respondWith(late)
  const response = await gateway.chat(customer, hello)
  const reader = response.body!.getReader()
  await readUntil(reader, ': ping')
  gate.resolve()
  const rest = await readUntil(reader, '\n\n')
  const event = JSON.parse((rest || (await readUntil(reader, '}'))).replace(/^[^{]*/, ''))
  expect(event).toEqual({ error: expect.objectContaining({ type: 'server_error', code: 'all_hosters_failed' }) })
  expect((await reader.read()).done).toBe(true)
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n)
})

describe('on the wire', () => {
  const requestOf = (key: string, version: string, connection: string) => {
    const body = JSON.stringify(hello)
    return (
      `POST /v1/chat/completions HTTP/${version}\r\nhost: x\r\nauthorization: Bearer ${key}\r\nconnection: ${connection}\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`
    )
  }

  test('pipelined requests are answered in order, in chunks of the right length', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(answer({ text: 'één 😀 twee' }), answer({ text: 'één 😀 twee' }))
    const both = requestOf(customer.key, '1.1', 'keep-alive') + requestOf(customer.key, '1.1', 'close')
    const first = await rawRequest(gateway.url, both)
    expect(first.headers).toMatchObject({ 'transfer-encoding': 'chunked' })
    const { content, rest } = dechunked(Buffer.from(first.body))
    expect(textOf(content)).toBe('één 😀 twee')
    const second = dechunked(rest.subarray(rest.indexOf('\r\n\r\n') + 4))
    expect(textOf(second.content)).toBe('één 😀 twee')
    expect(second.rest.length).toBe(0)
  })

  test('an HTTP/1.0 stream is not chunked and ends with its connection', async () => {
    const customer = await gateway.customer()
    upstream.respondWith(answer({ text: 'one two' }))
    const { headers, body } = await rawRequest(gateway.url, requestOf(customer.key, '1.0', 'close'))
    expect(headers['transfer-encoding']).toBeUndefined()
    expect(textOf(body)).toBe('one two')
  })

  /** The decoded body of a chunked response, and the bytes after it. */
  function dechunked(bytes: Buffer): { content: string; rest: Buffer } {
    const pieces: Buffer[] = []
    for (let at = 0; ; ) {
      const start = bytes.indexOf('\r\n', at) + 2
      const length = Number.parseInt(bytes.toString('latin1', at, start), 16)
      expect(bytes.toString('latin1', start + length, start + length + 2)).toBe('\r\n')
      at = start + length + 2
      if (length === 0) return { content: Buffer.concat(pieces).toString(), rest: bytes.subarray(at) }
      pieces.push(bytes.subarray(start, start + length))
    }
  }

  function textOf(events: string): string {
    expect(events.endsWith('data: [DONE]\n\n')).toBe(true)
    const chunks = events.split('\n\n').filter(event => event.startsWith('data: {'))
    return chunks.map(event => JSON.parse(event.slice(6)).choices[0]?.delta.content ?? '').join('')
  }
})

describe('a server that fails before its first content is replaced without a trace', () => {
  const failures: [name: string, behaviour: Behaviour][] = [
    ['a status', status(502)],
    ['a closed connection', hangUp()],
    ['a reset', hangUp('reset')],
    ['an end after the headers', sse([])],
    ['an end after the role', sse([chunk({ role: 'assistant', content: '' })])],
    ['an error event', sse([chunk({ role: 'assistant' }), { error: { message: 'out of memory', code: 500 } }])],
    ['an answer without any output', sse([chunk({ role: 'assistant', content: '' }), chunk({}, 'stop'), '[DONE]'])],
  ]
  test.each(failures)('%s', async (_name, behaviour) => {
    const customer = await gateway.customer()
    // A request on a reused connection that closes at once is sent again.
    upstream.always(behaviour)
    second.respondWith(answer({ text: 'from the second' }))
    const response = await gateway.chat(customer, { ...hello, model: 'two-servers', tier: 'cheapest' })
    expect(response.status).toBe(200)
    const stream = await readEventStream(response)
    expect(stream).toMatchObject({ done: true, text: 'from the second', error: null, finishReasons: ['stop'] })
    expect(stream.chunks.filter(each => each.choices[0]?.delta.role).length).toBe(1)
    // Keeps the first server from being ejected for its failures.
    upstream.always(answer())
    await readEventStream(await gateway.chat(customer, { ...hello, model: 'two-servers', tier: 'cheapest' }))
    const rows = await gateway.usage(customer)
    expect(rows[0]!.attempts.length).toBe(2)
    expect(rows[0]).toMatchObject({ success: true, outcome: 'served' })
  })
})

describe('a server that fails after its first content: an error chunk, no [DONE], no charge', () => {
  const begun = [chunk({ role: 'assistant', content: '' }), contentChunk('one '), contentChunk('two ')]
  const failures: [name: string, behaviour: Behaviour, model?: string][] = [
    ['the end of the connection', sse(begun, { ending: 'close' })],
    ['a proper end without finish_reason', sse(begun)],
    ['a reset', sse(begun, { ending: 'reset' })],
    ['a stall', sse(begun, { ending: 'stall' }), 'short-idle-timeout'],
    ['an error object', sse([...begun, { error: { message: 'CUDA error at 10.0.0.7:9000', type: 'server_error' } }])],
    ['an error with a numeric code', sse([...begun, { error: { message: 'x', code: 429 } }])],
    [
      'a finish_reason of error',
      sse([...begun, { choices: [{ index: 0, delta: {}, finish_reason: 'error' }] }, '[DONE]']),
    ],
    ['broken JSON', sse([...begun, '{"choices":[{"index":0,"delta":{"content":"x"'])],
  ]
  test.each(failures)('%s', async (_name, behaviour, model = hello.model) => {
    const customer = await gateway.customer()
    upstream.respondWith(behaviour)
    const response = await gateway.chat(customer, { ...hello, model, stream_options: { include_usage: true } })
    const stream = await readEventStream(response)
    expect(stream).toMatchObject({ done: false, text: 'one two ', usage: null })
    expect(stream.error).toMatchObject({ type: 'upstream_error', param: null, code: 'stream_interrupted' })
    expect(stream.error!.message).not.toMatch(/CUDA|10\.0/)
    expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n)
    expect(await gateway.usage(customer)).toMatchObject([{ success: false, outcome: 'interrupted', cost_nanos: 0n }])
    upstream.respondWith(answer())
    await readEventStream(await gateway.chat(customer, hello))
  })
})

test('the charge is committed before [DONE] is sent', async () => {
  const customer = await gateway.customer()
  for (let count = 1; count <= 50; count++) {
    const response = await gateway.chat(customer, hello)
    const reader = response.body!.getReader()
    await readUntil(reader, '[DONE]')
    const rows = await gateway.usage(customer)
    expect(rows.length).toBe(count)
    expect(rows.at(-1)).toMatchObject({ request_id: response.headers.get('x-request-id'), success: true })
  }
})

test('a slow reader receives everything and slows down the upstream', async () => {
  const customer = await gateway.customer()
  const piece = 'x'.repeat(65_536)
  // 128 MiB: more than the kernel buffers of two connections hold, at up to 36 MiB each.
  const pieces = 2_048
  let written = 0
  upstream.respondWith(
    sse(streamEvents({ pieces: Array(pieces).fill(piece), usage: usageOf(10, 1) }), {
      beforeEvent: index => {
        written = index
        return undefined
      },
    }),
  )
  const response = await gateway.chat(customer, { ...hello, model: 'free-model', max_tokens: 100_000_000 })
  const reader = response.body!.getReader()
  await readUntil(reader, 'xxx')
  let before = -1
  await expect
    .poll(
      () => {
        const stopped = before === written
        before = written
        return stopped
      },
      { interval: 150 },
    )
    .toBe(true)
  expect(written).toBeLessThan(pieces)
  let characters = 0
  let end = ''
  for (;;) {
    const { value, done } = await reader.read()
    if (done) break
    const text = Buffer.from(value).toString('latin1')
    characters += text.length
    end = (end + text).slice(-100)
  }
  expect(end).toContain('[DONE]')
  expect(characters).toBeGreaterThan((pieces - 5) * piece.length)
})
