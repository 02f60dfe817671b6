import { once } from 'node:events'
import { connect } from 'node:net'
import OpenAI from 'openai'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  answer,
  bytewise,
  chunk,
  closeAfter,
  contentChunk,
  hangUp,
  html200,
  neverEnding,
  rawResponse,
  type ScriptedUpstream,
  sse,
  sseBytes,
  stall,
  startScriptedUpstream,
  status,
  streamBytes,
  usageOf,
} from './scripted-upstream.ts'

let upstream: ScriptedUpstream
let openai: OpenAI

beforeEach(async () => {
  upstream = await startScriptedUpstream({ models: ['m1', 'm2'] })
  openai = new OpenAI({ baseURL: upstream.baseUrl, apiKey: 'key', maxRetries: 0 })
})
afterEach(() => upstream.close())

const post = (body: object = {}, signal?: AbortSignal) =>
  fetch(`${upstream.baseUrl}/chat/completions`, {
    method: 'POST',
    body: JSON.stringify(body),
    ...(signal ? { signal } : {}),
  })

const request = { model: 'm1', messages: [{ role: 'user' as const, content: 'hi' }] }

/** Returns all bytes of a response, even if it is not valid HTTP. */
async function rawBytes(): Promise<string> {
  const socket = connect(upstream.port, '127.0.0.1')
  socket.end('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n')
  const parts: Buffer[] = []
  socket.on('data', (part: Buffer) => parts.push(part))
  await once(socket, 'close')
  return Buffer.concat(parts).toString()
}

describe('recording', () => {
  test('next returns requests in order, before or after they arrive', async () => {
    const early = upstream.next()
    await (await post({ model: 'a' })).text()
    await (await post({ model: 'b' })).text()
    expect((await early).body.model).toBe('a')
    expect(await upstream.next()).toMatchObject({
      method: 'POST',
      path: '/v1/chat/completions',
      rawBody: '{"model":"b"}',
      body: { model: 'b' },
    })
    expect(upstream.requests).toHaveLength(2)
  })

  test('records probes separately', async () => {
    expect((await openai.models.list()).data.map(model => model.id)).toEqual(['m1', 'm2'])
    upstream.respondToProbesWith(status(503))
    expect((await fetch(`${upstream.baseUrl}/models`)).status).toBe(503)
    expect(upstream.probes.map(probe => probe.path)).toEqual(['/v1/models', '/v1/models'])
    expect(upstream.requests).toHaveLength(0)
  })

  test('aborted is true only if the client disconnected', async () => {
    upstream.respondWith(answer(), neverEnding(), stall(), hangUp(), closeAfter(5))
    await (await post()).text()
    expect(await (await upstream.next()).aborted).toBe(false)
    for (const _behaviour of ['neverEnding', 'stall']) {
      const client = new AbortController()
      const pending = post({}, client.signal)
      const recorded = await upstream.next()
      client.abort()
      await pending.catch(() => undefined)
      expect(await recorded.aborted).toBe(true)
    }
    for (const _behaviour of ['hangUp', 'closeAfter']) {
      await post()
        .then(response => response.text())
        .catch(() => undefined)
      expect(await (await upstream.next()).aborted).toBe(false)
    }
  })

  test('uses the queue first, then the default behaviour', async () => {
    upstream.respondWith(status(500), status(501))
    upstream.always(status(502))
    const codes: number[] = []
    for (let count = 0; count < 4; count += 1) codes.push((await post()).status)
    expect(codes).toEqual([500, 501, 502, 502])
  })

  test('a behaviour that throws makes close fail', async () => {
    upstream.respondWith(() => {
      throw new Error('a broken script')
    })
    await expect(post()).rejects.toThrow()
    await expect(upstream.close()).rejects.toThrow('a scripted behaviour threw')
    upstream = await startScriptedUpstream()
  })
})

describe('correct answers', () => {
  test('match the request', async () => {
    upstream.always(answer({ text: 'One two three.', usage: usageOf(7, 3), id: 'chatcmpl-7' }))
    const whole = await openai.chat.completions.create(request)
    expect(whole).toMatchObject({ id: 'chatcmpl-7', model: 'm1', usage: usageOf(7, 3) })
    expect(whole.choices[0]!.message.content).toBe('One two three.')
    const runner = openai.chat.completions.stream({ ...request, stream_options: { include_usage: true } })
    expect(await runner.finalChatCompletion()).toMatchObject({ id: 'chatcmpl-7', usage: usageOf(7, 3) })
    expect(await runner.finalContent()).toBe('One two three.')
    expect(await (await post({ stream: true })).text()).not.toContain('usage')
  })

  test('can contain tool calls', async () => {
    upstream.always(
      answer({
        toolCalls: [
          { name: 'f', arguments: '{"a":1}' },
          { name: 'g', arguments: '{}' },
        ],
      }),
    )
    const streamed = await openai.chat.completions.stream(request).finalChatCompletion()
    const whole = await openai.chat.completions.create(request)
    for (const { choices } of [streamed, whole]) {
      expect(choices[0]).toMatchObject({
        finish_reason: 'tool_calls',
        message: { tool_calls: [{ function: { name: 'f', arguments: '{"a":1}' } }, { function: { name: 'g' } }] },
      })
    }
  })

  test('can wait before an event', async () => {
    const gate = Promise.withResolvers<void>()
    upstream.respondWith(
      sse([contentChunk('a'), contentChunk('b'), '[DONE]'], {
        beforeEvent: index => (index === 1 ? gate.promise : undefined),
      }),
    )
    const reader = (await post()).body!.pipeThrough(new TextDecoderStream()).getReader()
    expect((await reader.read()).value).toContain('"content":"a"')
    gate.resolve()
    expect((await reader.read()).value).toContain('"content":"b"')
  })
})

describe('faulty answers', () => {
  test('raw bytes arrive unchanged', async () => {
    upstream.respondWith(rawResponse('not HTTP at all'))
    expect(await rawBytes()).toBe('not HTTP at all')
    upstream.respondWith(rawResponse(['HTTP/1.1 200 OK\r\n', 'content-length: 2\r\n\r\n', 'ok']))
    expect(await (await post()).text()).toBe('ok')
  })

  test('every framing can split characters into single bytes', async () => {
    const body = sseBytes([chunk({ content: '漢 👩' }), '[DONE]'], '\r\n')
    for (const framing of ['chunked', 'length', 'close'] as const) {
      upstream.respondWith(rawResponse(bytewise(body), { framing }))
      expect(await (await post()).text()).toBe(body.toString())
    }
  })

  test('the connection closes after an exact number of bytes', async () => {
    const body = streamBytes()
    for (const byteCount of [0, 1, 100, body.length]) {
      upstream.respondWith(closeAfter(byteCount, { framing: 'close' }))
      expect((await (await post()).arrayBuffer()).byteLength).toBe(byteCount)
      for (const framing of ['chunked', 'length'] as const) {
        if (framing === 'length' && byteCount === body.length) continue
        upstream.respondWith(closeAfter(byteCount, { framing }))
        await expect(post().then(response => response.text())).rejects.toThrow()
      }
    }
  })

  test('the connection closes or resets before the head', async () => {
    for (const how of ['close', 'reset'] as const) {
      upstream.respondWith(hangUp(how))
      await expect(post()).rejects.toThrow()
    }
  })

  test('a stall after the headers or after some deltas', async () => {
    upstream.respondWith(stall('headers'), stall({ pieces: ['a', 'b'] }))
    const client = new AbortController()
    expect((await post({}, client.signal)).status).toBe(200)
    const reader = (await post({}, client.signal)).body!.pipeThrough(new TextDecoderStream()).getReader()
    let seen = ''
    while (!seen.includes('"content":"b"')) seen += (await reader.read()).value
    client.abort()
    expect(await (await upstream.next()).aborted).toBe(true)
    expect(await (await upstream.next()).aborted).toBe(true)
  })

  test('HTML with 200', async () => {
    upstream.respondWith(html200())
    const response = await post()
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toContain('text/html')
  })

  test('a stream without its end', async () => {
    upstream.respondWith(sse([contentChunk('a')], { ending: 'close' }))
    await expect(post().then(response => response.text())).rejects.toThrow()
  })
})
