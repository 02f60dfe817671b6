import { gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { UpstreamExchange } from '../../src/wire/upstreams/upstream-exchange.ts'
import {
  answer,
  type Behaviour,
  bytewise,
  chunk,
  closeAfter,
  completion,
  contentChunk,
  hangUp,
  html200,
  neverEnding,
  rawResponse,
  sse,
  sseBytes,
  stall,
  startScriptedUpstream,
  status,
  streamBytes,
  streamEvents,
  usageChunk,
  usageOf,
} from '../harness/scripted-upstream.ts'
import { GENEROUS_TIMEOUTS } from '../harness/timeouts.ts'
import { useUpstream } from '../harness/use-test-app.ts'
import { completionId, offerAt, readStream, useDispatching } from './dispatching.ts'

const upstream = useUpstream()
const dispatching = useDispatching()
afterEach(() => {
  vi.restoreAllMocks()
  // No request is left in flight, whatever happened.
  expect(dispatching.health.inFlight('one/public-model')).toBe(0)
})

const stream = { stream: true }
const here = (timeouts: Partial<typeof GENEROUS_TIMEOUTS> = {}) =>
  offerAt(upstream.baseUrl, { endpoint: { timeouts: { ...GENEROUS_TIMEOUTS, ...timeouts } } })

async function streamed(behaviour: Behaviour, timeouts?: Partial<typeof GENEROUS_TIMEOUTS>) {
  upstream.respondWith(behaviour)
  return readStream(await dispatching.send(here(timeouts), stream))
}

/** Returns the outcome of the only attempt, which must fail. */
async function outcomeOf(
  behaviour: Behaviour,
  body: object,
  timeouts?: Partial<typeof GENEROUS_TIMEOUTS>,
): Promise<string> {
  // `always`, because a reused connection that closes is replaced once.
  upstream.always(behaviour)
  const failure = await dispatching.send(here(timeouts), body).then(
    () => 'answered',
    error => error,
  )
  expect(failure).toMatchObject({ name: 'Unserved', attempts: [{ offerId: 'one/public-model' }] })
  return failure.attempts[0].outcome
}

/** Resolves when a piece of a stream that contains this text is received and processed. */
function received(text: string): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { onResponseData } = UpstreamExchange.prototype
  vi.spyOn(UpstreamExchange.prototype, 'onResponseData').mockImplementation(function (this: UpstreamExchange, piece) {
    if (piece.includes(text)) setImmediate(resolve)
    onResponseData.call(this, piece)
  })
  return promise
}

const role = chunk({ role: 'assistant', content: '' })
const hello = contentChunk('Hello')
const stop = chunk({}, 'stop')
const roleAndStop = chunk({ role: 'assistant', content: '' }, 'stop')
const good = { text: 'Hello', finishReasons: ['stop'], failure: null }

describe('a stream is delivered completely although', () => {
  const events = streamEvents({ text: 'Hello', usage: usageOf(10, 1) })
  const emoji = { text: 'zażółć 🙂 漢字' }

  it.each<[name: string, behaviour: Behaviour, seen: object]>([
    ['nothing is wrong with it', sse(events), { ...good, usage: [10, 1] }],
    ['usage is missing', sse([role, hello, stop, '[DONE]']), { ...good, usage: null }],
    [
      'usage comes twice',
      sse([role, hello, { ...stop, usage: usageOf(10, 1) }, usageChunk(usageOf(10, 1)), '[DONE]']),
      { ...good, usage: [10, 1] },
    ],
    ['usage is zero', sse([role, hello, stop, usageChunk(usageOf(0, 0)), '[DONE]']), { ...good, usage: null }],
    [
      'usage is on every chunk, cumulative',
      sse([
        { ...role, usage: usageOf(10, 0) },
        { ...hello, usage: usageOf(10, 1) },
        { ...stop, usage: usageOf(10, 2) },
        '[DONE]',
      ]),
      { ...good, usage: [10, 2] },
    ],
    ['[DONE] is missing', sse([role, hello, stop]), { ...good }],
    ['finish_reason is missing', sse([role, hello, '[DONE]']), { ...good }],
    ['the upstream hangs up right after finish_reason', sse([role, hello, stop], { ending: 'close' }), { ...good }],
    [
      'the upstream resets the connection after [DONE]',
      sse([role, hello, stop, '[DONE]'], { ending: 'reset' }),
      { ...good },
    ],
    [
      'more events follow [DONE]',
      sse([role, hello, stop, '[DONE]', contentChunk('more'), { error: 'x' }]),
      { ...good },
    ],
    ['lines end in CRLF', sse(events, { eol: '\r\n' }), { ...good, usage: [10, 1] }],
    ['lines end in CR', sse(events, { eol: '\r' }), { ...good, usage: [10, 1] }],
    [
      'each byte is written separately',
      rawResponse(bytewise(streamBytes(emoji)), { framing: 'chunked' }),
      { ...good, text: emoji.text },
    ],
    [
      'a character is split over two writes',
      rawResponse([streamBytes(emoji).subarray(0, 390), streamBytes(emoji).subarray(390)], { framing: 'chunked' }),
      { ...good, text: emoji.text },
    ],
    [
      'it begins with a BOM',
      rawResponse(`\ufeff${streamBytes({ text: 'Hello' })}`, { framing: 'chunked' }),
      { ...good },
    ],
    [
      'comments and blank lines are in between',
      rawResponse(
        `: hi\n\n\n\n${streamBytes({ text: 'Hello' })}`.replaceAll('\n\n', '\n\n: OPENROUTER PROCESSING\n\n'),
        { framing: 'chunked' },
      ),
      { ...good },
    ],
    [
      'comments and blanks stand inside events',
      sse([': OPENROUTER PROCESSING', '', ' ', role, ': OPENROUTER PROCESSING', hello, stop, ' [DONE]']),
      { ...good },
    ],
    [
      'the body ends with the connection',
      rawResponse(streamBytes({ text: 'Hello' }), { framing: 'close' }),
      { ...good },
    ],
    ['it carries a Content-Length', rawResponse(streamBytes({ text: 'Hello' }), { framing: 'length' }), { ...good }],
    [
      'deltas are full of nulls',
      sse([
        chunk({ role: null, content: null, tool_calls: null } as never),
        chunk({ role: null, content: 'Hello', tool_calls: null } as never),
        stop,
        '[DONE]',
      ]),
      { ...good },
    ],
    ['no chunk has a role', sse([hello, stop, '[DONE]']), { ...good }],
    ['finish_reason comes three times', sse([role, hello, stop, chunk({}, 'length'), stop, '[DONE]']), { ...good }],
    [
      'content follows the finish_reason',
      sse([role, hello, stop, contentChunk(' again'), '[DONE]']),
      { ...good, text: 'Hello again' },
    ],
    [
      'finish_reason is on every chunk',
      sse([chunk({ content: 'Hel' }, 'stop'), chunk({ content: 'lo' }, 'stop'), usageChunk(usageOf(10, 2)), '[DONE]']),
      { ...good, usage: [10, 2] },
    ],
    [
      'finish_reason is empty before the end',
      sse([role, chunk({ content: 'Hello' }, '' as never), stop, '[DONE]']),
      { ...good },
    ],
    [
      '4,000 choices come instead of one',
      sse([
        { ...role, choices: Array.from({ length: 4_000 }, (_, index) => ({ index, delta: { content: 'Hello' } })) },
        stop,
        '[DONE]',
      ]),
      { ...good },
    ],
    ['content holds NUL', sse([role, contentChunk('a\u0000b'), stop, '[DONE]']), { ...good, text: 'a\u0000b' }],
    [
      'JSON holds __proto__',
      rawResponse(
        `data: {"choices":[{"index":0,"delta":{"content":"Hello","__proto__":{"x":1}}}],"__proto__":{"x":1}}\n\n${sseBytes([stop])}`,
        { framing: 'chunked' },
      ),
      { ...good },
    ],
    ['the content type is missing', sse(events, { headers: { 'content-type': '' } }), { ...good }],
    [
      'the content type is that of JSON',
      sse(events, { headers: { 'content-type': 'application/json' } }),
      { ...good, usage: [10, 1] },
    ],
    [
      'a completion arrives instead of a stream',
      status(200, { choices: [{ message: { content: 'Hello' }, finish_reason: 'stop' }], usage: usageOf(10, 1) }),
      { ...good, usage: [10, 1] },
    ],
    ...['text/event-stream', 'text/plain', ''].map((type): [string, Behaviour, object] => [
      `a completion arrives after some blanks, as "${type}"`,
      rawResponse(['\ufeff \n', '\n{"choices":[{"message":{"content":"Hello"},', '"finish_reason":"stop"}]}'], {
        framing: 'chunked',
        headers: { 'content-type': type },
      }),
      { ...good },
    ]),
    [
      'it is a completion with a content type in capitals',
      status(
        200,
        { choices: [{ message: { content: 'Hello' }, finish_reason: 'stop' }] },
        { 'content-type': 'APPLICATION/JSON' },
      ),
      { ...good },
    ],
    [
      'headers set cookies',
      sse(events, { headers: { 'set-cookie': 'a=b', 'strict-transport-security': 'x' } }),
      { ...good },
    ],
  ])('%s', async (_name, behaviour, seen) => {
    const result = await streamed(behaviour)
    expect(result).toMatchObject(seen)
    const [first] = result.chunks
    expect(first!.choices).toEqual([{ index: 0, delta: { role: 'assistant', content: '' }, finish_reason: null }])
    const heads = result.chunks.map(({ id, object, created, model }) => ({ id, object, created, model }))
    const head = { id: completionId, object: 'chat.completion.chunk', created: 1_750_000_000, model: 'public-model' }
    expect(new Set(heads.map(each => JSON.stringify(each)))).toEqual(new Set([JSON.stringify(head)]))
  })

  it('content follows the finish_reason, and more content follows later than the limit for a usage report', async () => {
    const realNow = performance.now.bind(performance)
    let shiftMs = 0
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => realNow() + shiftMs)
    const hesitant = sse([role, hello, stop, contentChunk(' again'), contentChunk(' and again'), '[DONE]'], {
      // Five seconds pass before the last content, and then the time limits are checked.
      beforeEvent: index => {
        if (index === 4) shiftMs = 5_000
        return index === 3 || index === 4 ? new Promise(resolve => setTimeout(resolve, 250)) : undefined
      },
    })
    try {
      expect(await streamed(hesitant, { idleMs: 60_000 })).toMatchObject({ ...good, text: 'Hello again and again' })
    } finally {
      clock.mockRestore()
    }
  })

  it.each([
    ['first', roleAndStop],
    ['second', chunk({ content: 'Hel' }, 'stop')],
  ])(
    'finish_reason is on every chunk, and the %s content arrives later than the limit for a usage report',
    async (_which, first) => {
      const realNow = performance.now.bind(performance)
      let shiftMs = 0
      vi.spyOn(performance, 'now').mockImplementation(() => realNow() + shiftMs)
      const { checkDeadline } = UpstreamExchange.prototype
      const isChecked = Promise.withResolvers<void>()
      vi.spyOn(UpstreamExchange.prototype, 'checkDeadline').mockImplementation(function (
        this: UpstreamExchange,
        nowMs,
      ) {
        checkDeadline.call(this, nowMs)
        if (shiftMs > 0) isChecked.resolve()
      })
      const isReceived = received('"stop"')
      const beforeEvent = async (index: number) => {
        if (index !== 1) return
        await isReceived
        shiftMs = 5_000
        await isChecked.promise
      }
      const last = chunk({ content: first === roleAndStop ? 'Hello' : 'lo' }, 'stop')
      expect(await streamed(sse([first, last, '[DONE]'], { beforeEvent }))).toMatchObject(good)
    },
  )

  it('the usage report never arrives', async () => {
    const silent = sse([role, hello, stop], { ending: 'stall' })
    expect(await streamed(silent, { idleMs: 500 })).toMatchObject({ ...good, usage: null })
  })

  it('tool calls have neither index nor id', async () => {
    const call = { function: { name: 'weather', arguments: '{"city":"Turku"}' } }
    const { chunks, finishReasons } = await streamed(sse([chunk({ tool_calls: [call] } as never), stop, '[DONE]']))
    expect(chunks.flatMap(({ choices }) => choices.flatMap(choice => choice.delta.tool_calls ?? []))).toEqual([
      { index: 0, id: expect.stringMatching(/^call_/), type: 'function', ...call },
    ])
    expect(finishReasons).toEqual(['tool_calls'])
  })
})

describe('an attempt fails when', () => {
  it('the client disconnects after a finish_reason without content; the server is not blamed', async () => {
    const client = new AbortController()
    const isReceived = received('"stop"')
    upstream.respondWith(sse([roleAndStop], { ending: 'stall' }))
    const reportsBefore = dispatching.reports.length
    const sending = dispatching.send(here(), stream, client.signal)
    void isReceived.then(() => client.abort('client_gone'))
    await expect(sending).rejects.toMatchObject({ name: 'Unserved', attempts: [{ outcome: 'cancelled' }] })
    expect(dispatching.reports.slice(reportsBefore)).toEqual([])
  })

  const huge = Buffer.alloc(1024 * 1024, 'x')
  /** JSON with this many different names, which are expensive to parse. */
  const names = (count: number) => `{${Array.from({ length: count }, (_, n) => `"${n.toString(36)}":1`).join(',')}}`
  const json = { 'content-type': 'application/json' }

  it.each<[name: string, behaviour: Behaviour, outcome: string]>([
    ['a login page comes with status 200', html200(), 'malformed'],
    ['HTML comes as an event stream', rawResponse('<html>\n<body>\n\n</html>', { framing: 'chunked' }), 'server_error'],
    ['the stream is empty', sse([]), 'server_error'],
    ['only [DONE] comes', sse(['[DONE]']), 'empty'],
    ['only a role and a finish come', sse([role, stop, '[DONE]']), 'empty'],
    ['finish_reason is length, without usage', sse([role, chunk({}, 'length'), '[DONE]']), 'empty'],
    ['the JSON is broken', sse(['{"choices":[{']), 'malformed'],
    ['the first event is not an object', sse(['42']), 'malformed'],
    ['a line is longer than 1 MiB', rawResponse(['data: ', huge], { framing: 'chunked' }), 'malformed'],
    ['an event has many lines', rawResponse('data:\n'.repeat(5_000), { framing: 'chunked' }), 'malformed'],
    ['an event has many names', rawResponse(`data: ${names(66_000)}\n\n`, { framing: 'chunked' }), 'malformed'],
    [
      'events without content keep coming',
      rawResponse(Array(20).fill(`data: {"choices":[{"logprobs":{"content":["${'x'.repeat(200_000)}"]}}]}\n\n`), {
        framing: 'chunked',
      }),
      'malformed',
    ],
    ['an error comes with status 200', sse([{ error: { message: 'out of memory', code: 500 } }]), 'server_error'],
    ['an error comes after the role', sse([role, { error: 'boom' }]), 'server_error'],
    ['an error body comes with status 200', status(200, { error: { message: 'x' } }), 'server_error'],
    [
      'an error body comes as an event stream',
      rawResponse('{"error":{"message":"wait","code":429}}', { framing: 'chunked' }),
      'busy',
    ],
    [
      'a completion that is too long for max_tokens comes as an event stream',
      rawResponse(['{', huge], { framing: 'chunked' }),
      'malformed',
    ],
    [
      'an error event is named',
      rawResponse('event: error\ndata: {"message":"boom"}\n\n', { framing: 'chunked' }),
      'server_error',
    ],
    [
      'llama.cpp sends its old error line',
      rawResponse('error: {"code":500,"message":"boom"}\n\n', { framing: 'chunked' }),
      'server_error',
    ],
    ['an event reports 429', sse([{ error: { message: 'wait', code: 429 } }]), 'busy'],
    ['status 204', status(204), 'malformed'],
    ['status 302', status(302, '', { location: 'http://127.0.0.1:1/' }), 'server_error'],
    ['status 401', status(401, { error: { message: 'bad key' } }), 'credential_rejected'],
    ['status 402', status(402, { error: { message: 'pay' } }), 'credential_rejected'],
    ['status 404', status(404, { error: { message: 'no such model' } }), 'server_error'],
    ['status 429', status(429, { error: { message: 'wait' } }, { 'retry-after': '7' }), 'busy'],
    [
      'status 400 with a wrong key in a list',
      status(400, [{ error: { code: 400, message: 'API key not valid. Please pass a valid API key.' } }]),
      'credential_rejected',
    ],
    [
      'status 413 for the rate limit of our account',
      status(413, { error: { message: 'Request too large: TPM', type: 'tokens', code: 'rate_limit_exceeded' } }),
      'busy',
    ],
    ['it aborts before any content', sse([role, chunk({}, 'abort' as never), '[DONE]']), 'server_error'],
    [
      'status 400 of a proxy that expects TLS',
      status(
        400,
        '<html>\r\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>\r\n<body>\r\n<hr><center>nginx/1.28.0</center>\r\n</body>\r\n</html>',
        { 'content-type': 'text/html' },
      ),
      'server_error',
    ],
    [
      'status 400 of a Go server that expects TLS',
      status(400, 'Client sent an HTTP request to an HTTPS server.\n', { 'content-type': 'text/plain' }),
      'server_error',
    ],
    ['status 400 of a framework', status(400, '<!doctype html><title>400 Bad Request</title>'), 'request_rejected'],
    ['status 500 with HTML', status(500, '<html>', { 'content-type': 'text/html' }), 'server_error'],
    [
      'status 503',
      status(503, { error: { code: 503, message: 'Loading model', type: 'unavailable_error' } }),
      'server_error',
    ],
    ['status 503 with Retry-After', status(503, '', { 'retry-after': '2' }), 'busy'],
    ['status 529', status(529, { error: { type: 'overloaded_error', message: 'x' } }), 'busy'],
    [
      'the body is compressed without being asked for',
      (_request, response) => void response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(streamBytes())),
      'malformed',
    ],
    ['the upstream hangs up without a byte', hangUp(), 'server_error'],
    ['the upstream resets the connection', hangUp('reset'), 'server_error'],
    ['the upstream does not speak HTTP', rawResponse('SSH-2.0-OpenSSH_9.6\r\n'), 'malformed'],
    [
      'the chunk lengths are garbage',
      rawResponse('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhi\r\n'),
      'malformed',
    ],
    [
      'the body is shorter than its content-length',
      rawResponse(sseBytes([role]), { framing: 'length', contentLength: 9_999 }),
      'server_error',
    ],
    ['header lines are endless', rawResponse(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(200_000)}\r\n\r\n`), 'malformed'],
  ])('%s (stream)', async (_name, behaviour, outcome) => {
    expect(await outcomeOf(behaviour, stream)).toBe(outcome)
  })

  it.each<[name: string, behaviour: Behaviour, outcome: string]>([
    ['a login page comes with status 200', html200(), 'malformed'],
    ['an error body comes with status 200', status(200, { error: { message: 'x', code: 500 } }), 'server_error'],
    ['choices are empty', status(200, { choices: [] }), 'empty'],
    ['content is empty', status(200, { choices: [{ message: { content: '' } }] }), 'empty'],
    ['the JSON is cut', rawResponse('{"choices":[{"mess', { framing: 'length', headers: json }), 'malformed'],
    [
      'the connection ends early',
      rawResponse('{"choices":', { framing: 'length', contentLength: 999, headers: json }),
      'server_error',
    ],
    ['status 204', status(204), 'malformed'],
    ['status 500', status(500, { error: 'boom' }), 'server_error'],
    ['the upstream hangs up', hangUp(), 'server_error'],
  ])('%s (without streaming)', async (_name, behaviour, outcome) => {
    expect(await outcomeOf(behaviour, {})).toBe(outcome)
  })

  it('an answer without streaming is much larger than max_tokens allows', async () => {
    const flood = (kib: number) =>
      rawResponse(Array(kib).fill(Buffer.alloc(1024, ' ')), { framing: 'chunked', headers: json })
    // max_tokens is 256.
    expect(await outcomeOf(flood(300), {})).toBe('malformed')
    expect(await outcomeOf(flood(300), stream)).toBe('malformed')
    const logprobs = { logprobs: true, top_logprobs: 20 }
    upstream.always(
      rawResponse([Buffer.alloc(1_200_000, ' '), JSON.stringify(completion())], { framing: 'close', headers: json }),
    )
    expect(await dispatching.send(here(), logprobs)).toMatchObject({ kind: 'whole' })
  })

  it('an answer without streaming has many names', async () => {
    expect(await outcomeOf(status(200, `{"choices":[],"x":${names(66_000)}}`), { modalities: ['text', 'audio'] })).toBe(
      'malformed',
    )
  })

  it('no content arrives within the first-token limit: no headers, only headers, only a role', async () => {
    const limits = { firstTokenMs: 60 }
    expect(await outcomeOf(stall(), stream, limits)).toBe('first_token_timeout')
    expect(await outcomeOf(stall('headers'), stream, limits)).toBe('first_token_timeout')
    expect(await outcomeOf(sse([role], { ending: 'stall' }), stream, limits)).toBe('first_token_timeout')
  })

  it('an answer without streaming takes longer than the total limit', async () => {
    expect(await outcomeOf(stall(), {}, { totalMs: 80 })).toBe('first_token_timeout')
    expect(await outcomeOf(stall('headers'), {}, { totalMs: 80 })).toBe('first_token_timeout')
  })

  it('only keep-alive comments arrive', async () => {
    const pings = rawResponse(Array(400).fill(': ping\n\n'), {
      framing: 'chunked',
      betweenPieces: () => new Promise(resolve => setTimeout(resolve, 5)),
      ending: 'stall',
    })
    expect(await outcomeOf(pings, stream, { firstTokenMs: 100, idleMs: 5_000 })).toBe('first_token_timeout')
  })

  it('no connection is accepted', async () => {
    const gone = await startScriptedUpstream()
    await gone.close()
    await expect(dispatching.send(offerAt(gone.baseUrl), stream)).rejects.toMatchObject({
      code: 'all_hosters_failed',
      attempts: [{ outcome: 'connect_failed' }],
    })
  })
})

describe('a stream ends with a failure, never silently, if after its first content', () => {
  it.each<[name: string, behaviour: Behaviour, outcome: string]>([
    ['the upstream hangs up', sse([role, hello], { ending: 'close' }), 'server_error'],
    ['the upstream resets the connection', sse([role, hello], { ending: 'reset' }), 'server_error'],
    ['the body ends properly', sse([role, hello]), 'server_error'],
    ['an error comes', sse([role, hello, { error: { message: 'boom', code: 500 } }]), 'server_error'],
    ['finish_reason is "abort"', sse([role, hello, chunk({}, 'abort' as never), '[DONE]']), 'server_error'],
    [
      'the upstream resets the connection, with a finish_reason in every chunk',
      sse([chunk({ content: 'Hel' }, 'stop'), chunk({ content: 'lo' }, 'stop')], { ending: 'reset' }),
      'server_error',
    ],
    ['finish_reason is "error"', sse([role, hello, chunk({}, 'error' as never), '[DONE]']), 'server_error'],
    ['the JSON is broken', sse([role, hello, '{"choices"', stop, '[DONE]']), 'malformed'],
    [
      'a line is longer than 1 MiB',
      rawResponse([sseBytes([role, hello]), 'data: ', Buffer.alloc(2 ** 20, 'x')], { framing: 'chunked' }),
      'malformed',
    ],
    [
      'chunk lengths are garbage',
      rawResponse(
        `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n${sseBytes([hello]).length.toString(16)}\r\n${sseBytes([hello])}\r\nzz\r\n`,
      ),
      'malformed',
    ],
  ])('%s', async (_name, behaviour, outcome) => {
    const reportsBefore = dispatching.reports.length
    const result = await streamed(behaviour)
    expect(result).toMatchObject({ text: 'Hello', finishReasons: [], failure: { name: 'UpstreamFailure', outcome } })
    expect(dispatching.reports.slice(reportsBefore)).toEqual([`failure one/public-model ${outcome}`])
  })

  it('nothing more arrives within the idle limit', async () => {
    const result = await streamed(stall({ pieces: ['Hel', 'lo'] }), { idleMs: 500 })
    expect(result).toMatchObject({ text: 'Hello', failure: { outcome: 'server_error' } })
  })

  it('it takes longer than the total limit', async () => {
    const result = await streamed(neverEnding(), { totalMs: 1_000 })
    expect(result).toMatchObject({ finishReasons: [], failure: { outcome: 'server_error' } })
  })
})

it('a stream of 200 bytes is either complete or failed, wherever it is cut', async () => {
  const bytes = Buffer.from(
    `data: {"choices":[{"delta":{"content":"Hi"}}]}\n\ndata: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n: ${'-'.repeat(77)}\n\ndata: [DONE]\n\n`,
  )
  expect(bytes.length).toBe(200)
  const endOfContent = bytes.indexOf('\n\n') + 2
  const endOfFinish = bytes.indexOf('\n\n', endOfContent) + 2
  for (let cut = 0; cut <= bytes.length; cut++) {
    // `always`, because a reused connection that closes is replaced once.
    upstream.always(closeAfter(cut, { body: bytes }))
    const seen = await dispatching.send(here(), stream).then(readStream, error => error.attempts[0].outcome)
    if (cut < endOfContent) expect([cut, seen]).toEqual([cut, 'server_error'])
    else if (cut < endOfFinish) {
      expect([cut, seen]).toMatchObject([cut, { text: 'Hi', finishReasons: [], failure: { outcome: 'server_error' } }])
    } else expect([cut, seen]).toMatchObject([cut, { text: 'Hi', finishReasons: ['stop'], failure: null }])
  }
  upstream.always(answer())
})

it('does not pass on the id and model of the upstream, and sends only its own headers', async () => {
  upstream.respondWith(answer({ id: 'chatcmpl-of-the-upstream', model: 'gpt-99' }))
  const whole = await dispatching.send(here())
  expect(whole).toMatchObject({ kind: 'whole', completion: { id: completionId, model: 'public-model' } })
  const { headers, path } = upstream.requests.at(-1)!
  expect(path).toBe('/v1/chat/completions')
  expect(Object.keys(headers).sort()).toEqual(
    [
      ...['accept', 'accept-encoding', 'authorization', 'connection', 'content-length', 'content-type', 'host'],
      'user-agent',
    ].sort(),
  )
  expect(headers).toMatchObject({
    'accept-encoding': 'identity',
    authorization: 'Bearer upstream-secret',
    'user-agent': 'switchyard/0.0.0-test',
  })
})
