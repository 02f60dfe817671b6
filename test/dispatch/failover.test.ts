import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { ApiError } from '../../src/domain/errors.ts'
import type { Unserved } from '../../src/domain/upstream-failure.ts'
import { GENEROUS_TIMEOUTS } from '../harness/patience.ts'
import {
  answer,
  type Behaviour,
  chunk,
  contentChunk,
  hangUp,
  neverEnding,
  rawResponse,
  type ScriptedUpstream,
  sse,
  stall,
  startScriptedUpstream,
  status,
  streamBytes,
  streamEvents,
} from '../harness/scripted-upstream.ts'
import { type Dispatching, offerAt, readStream, startDispatching } from './dispatching.ts'

let dispatching: Dispatching
let upstreams: ScriptedUpstream[]
beforeEach(async () => {
  dispatching = startDispatching()
  upstreams = await Promise.all(Array.from({ length: 4 }, () => startScriptedUpstream()))
})
afterEach(async () => {
  await dispatching.close()
  await Promise.all(upstreams.map(upstream => upstream.close()))
})

const stream = { stream: true }
const role = chunk({ role: 'assistant', content: '' })
const boom = status(500, { error: { message: 'boom' } })
const at = (index: number, more: Parameters<typeof offerAt>[1] = {}) =>
  offerAt(upstreams[index]!.baseUrl, { name: `u${index}`, ...more })
const asked = () => upstreams.map(upstream => upstream.requests.length)
const unserved = (sending: Promise<unknown>): Promise<Unserved> =>
  sending.then(
    () => Promise.reject(new Error('somebody answered')),
    failure => failure,
  )

describe('failing over', () => {
  it('tries the offers in order until one answers, and tells nobody but the attempts', async () => {
    upstreams[0]!.always(boom)
    upstreams[1]!.always(sse([role, { error: 'loading' }]))
    upstreams[2]!.always(answer({ text: 'third time lucky' }))
    const startedMs = performance.now()
    const answered = await dispatching.send([at(0), at(1), at(2), at(3)], stream)
    expect(await readStream(answered)).toMatchObject({
      text: 'third time lucky',
      finishReasons: ['stop'],
      failure: null,
    })
    expect(answered.offer.offerId).toBe('u2/public-model')
    expect(answered.attempts).toMatchObject([
      { offerId: 'u0/public-model', endpointId: 'u0', outcome: 'server_error' },
      { offerId: 'u1/public-model', endpointId: 'u1', outcome: 'server_error' },
      { offerId: 'u2/public-model', endpointId: 'u2', outcome: 'answered' },
    ])
    expect(answered.firstTokenMs).toBeGreaterThan(0)
    const elapsedMs = answered.attempts.reduce((sum, attempt) => sum + Math.max(0, attempt.elapsedMs - 1), 0)
    expect(elapsedMs).toBeLessThan(performance.now() - startedMs)
    expect(asked()).toEqual([1, 1, 1, 0])
    expect(dispatching.reports).toEqual([
      'failure u0/public-model server_error',
      'failure u1/public-model server_error',
      'success u2/public-model',
    ])
  })

  it('does so for whole answers too', async () => {
    upstreams[0]!.always(status(200, { choices: [] }))
    upstreams[1]!.always(status(401))
    const answered = await dispatching.send([at(0), at(1), at(2)])
    expect(answered).toMatchObject({
      kind: 'whole',
      completion: { choices: [{ message: { content: 'Hello from the scripted upstream.' } }] },
      attempts: [{ outcome: 'empty' }, { outcome: 'credential_rejected' }, { outcome: 'answered' }],
    })
    expect(dispatching.reports).toEqual([
      'failure u0/public-model empty',
      'failure u1/public-model credential_rejected',
      'success u2/public-model',
    ])
  })

  it('ends with the first content: what breaks later is thrown to the reader', async () => {
    upstreams[0]!.always(sse([role, contentChunk('Hel')], { ending: 'reset' }))
    const seen = await readStream(await dispatching.send([at(0), at(1)], stream))
    expect(seen).toMatchObject({ text: 'Hel', failure: { outcome: 'server_error' } })
    expect(asked()).toEqual([1, 0, 0, 0])
    expect(dispatching.reports).toEqual(['failure u0/public-model server_error'])
  })

  it('counts a request that is called wrong after its answer has begun as a fault of the server', async () => {
    upstreams[0]!.always(sse([role, contentChunk('Hel'), { error: { message: 'no', code: 400 } }]))
    const seen = await readStream(await dispatching.send([at(0), at(1)], stream))
    expect(seen).toMatchObject({ text: 'Hel', failure: { outcome: 'request_rejected' } })
    expect(dispatching.reports).toEqual(['failure u0/public-model server_error'])
  })

  it('leaves a server that is silent beyond its first-token limit', async () => {
    upstreams[0]!.always(stall('headers'))
    const SHORT_TIMEOUTS = { timeouts: { ...GENEROUS_TIMEOUTS, firstTokenMs: 50 } }
    const answered = await dispatching.send([at(0, { endpoint: SHORT_TIMEOUTS }), at(1)], stream)
    expect(answered.offer.offerId).toBe('u1/public-model')
    expect(await upstreams[0]!.requests[0]!.aborted).toBe(true)
    await readStream(answered)
  })

  it.each([[{}], [stream]])('does not wait for the end of an error as long as for an answer: %j', async body => {
    upstreams[0]!.always(
      rawResponse('{"error":', { status: 429, framing: 'length', contentLength: 99, ending: 'stall' }),
    )
    // So long that nobody else would be asked after it.
    const timeouts = { ...GENEROUS_TIMEOUTS, firstTokenMs: GENEROUS_TIMEOUTS.totalMs, idleMs: 50 }
    const answered = await dispatching.send([at(0, { endpoint: { timeouts } }), at(1)], body)
    expect(answered.attempts.map(attempt => attempt.outcome)).toEqual(['busy', 'answered'])
    if (answered.kind === 'stream') await readStream(answered)
  })

  it('does not wait for a connection longer than the connect limit', async () => {
    // TLS to a server that accepts and says nothing: connected to the kernel, never to us.
    const mute = createServer(() => {})
    await new Promise<void>(resolve => mute.listen(0, '127.0.0.1', resolve))
    const { port } = mute.address() as { port: number }
    const offer = offerAt(`https://127.0.0.1:${port}/v1`, {
      endpoint: { timeouts: { ...GENEROUS_TIMEOUTS, connectMs: 50 } },
    })
    const failure = await unserved(dispatching.send(offer))
    expect(failure.attempts).toMatchObject([{ outcome: 'connect_failed' }])
    await dispatching.close()
    mute.close()
  })

  it('tries three servers for a model, then the fallback models, six in all', async () => {
    for (const upstream of upstreams) upstream.always(boom)
    const offers = ['a', 'b', 'c'].flatMap(modelId => [0, 1, 2, 3].map(index => at(index, { modelId })))
    const { attempts } = await unserved(dispatching.send(offers))
    expect(attempts.map(attempt => attempt.offerId)).toEqual(['u0/a', 'u1/a', 'u2/a', 'u0/b', 'u1/b', 'u2/b'])
  })

  it('takes the number of servers from the configuration', async () => {
    await dispatching.close()
    dispatching = startDispatching({ attemptsMax: 1 })
    upstreams[0]!.always(boom)
    const offers = [at(0), at(1), at(0, { modelId: 'b' })]
    const { attempts } = await unserved(dispatching.send(offers))
    expect(attempts.map(attempt => attempt.offerId)).toEqual(['u0/public-model', 'u0/b'])
  })

  it('does not go back to a server that could not be reached', async () => {
    await upstreams[0]!.close()
    upstreams[1]!.respondWith(boom)
    const answered = await dispatching.send([at(0), at(1), at(0, { modelId: 'b' }), at(1, { modelId: 'b' })])
    expect(answered.attempts.map(attempt => attempt.offerId)).toEqual(['u0/public-model', 'u1/public-model', 'u1/b'])
  })

  it('tries no server twice for a model', async () => {
    upstreams[0]!.always(boom)
    const answered = await dispatching.send([at(0), at(0), at(1)])
    expect(answered.attempts.map(attempt => attempt.endpointId)).toEqual(['u0', 'u1'])
  })

  it('shares one deadline between the attempts', async () => {
    for (const upstream of upstreams) upstream.always(stall())
    const brief = { endpoint: { timeouts: { ...GENEROUS_TIMEOUTS, totalMs: 100 } } }
    const { attempts } = await unserved(dispatching.send([at(0, brief), at(1, brief), at(2, brief)]))
    expect(attempts).toHaveLength(1)
  })
})

describe('giving up', () => {
  it('says that all failed, and keeps the details to itself', async () => {
    for (const upstream of upstreams) upstream.always(status(500, { error: { message: `at ${upstream.baseUrl}` } }))
    const failure = await unserved(dispatching.send([at(0), at(1)]))
    expect(failure).toMatchObject({ code: 'all_hosters_failed', retryAfterS: undefined })
    expect(failure.message).not.toContain('127.0.0.1')
    expect(failure.upstreamMessages).toEqual(['at [address]', 'at [address]'])
    expect(failure.attempts).toHaveLength(2)
  })

  it('says when to come back if every server was busy', async () => {
    upstreams[0]!.always(status(429, {}, { 'retry-after': '9' }))
    upstreams[1]!.always(status(503, {}, { 'retry-after-ms': '2500' }))
    expect(await unserved(dispatching.send([at(0), at(1)]))).toMatchObject({ retryAfterS: 3 })
    upstreams[1]!.always(boom)
    expect(await unserved(dispatching.send([at(0), at(1)]))).toMatchObject({ retryAfterS: undefined })
    upstreams[1]!.always(status(429, {}, { 'retry-after': '0' }))
    expect(await unserved(dispatching.send(at(1)))).toMatchObject({ retryAfterS: 1 })
    upstreams[1]!.always(status(429, {}, { 'retry-after': '999999999' }))
    expect(await unserved(dispatching.send(at(1)))).toMatchObject({ retryAfterS: 86_400 })
    upstreams[1]!.always(status(429))
    expect(await unserved(dispatching.send(at(1)))).toMatchObject({ retryAfterS: undefined })
  })

  it('takes a moment that has passed for no wish to be left alone', async () => {
    upstreams[0]!.always(status(503, {}, { 'retry-after': 'Thu, 01 Jan 1970 00:00:00 GMT' }))
    expect(await unserved(dispatching.send(at(0)))).toMatchObject({ retryAfterS: undefined })
    expect(dispatching.reports).toEqual(['failure u0/public-model server_error'])
  })

  it.each([400, 413, 422])('stops at a %s: another server would refuse the same request', async code => {
    const words = {
      message: "Unsupported value: 'x' (see http://10.0.0.7/docs)",
      param: 'response_format',
      code: 'bad',
    }
    upstreams[0]!.always(status(code, { error: words }))
    const failure = await unserved(dispatching.send([at(0), at(1)], stream))
    expect(failure).toMatchObject({
      code: 'upstream_rejected',
      param: 'response_format',
      attempts: [{ outcome: 'request_rejected' }],
    })
    expect(failure.message).toBe("The model server refused the request: Unsupported value: 'x' (see [address])")
    expect(asked()).toEqual([1, 0, 0, 0])
    expect(dispatching.reports).toEqual([])
  })

  it('names a context that is too long by its own code', async () => {
    upstreams[0]!.always(status(400, { error: { message: "This model's maximum context length is 10 tokens." } }))
    expect(await unserved(dispatching.send(at(0)))).toMatchObject({ code: 'context_length_exceeded' })
  })

  it('has nobody to ask', async () => {
    expect(await unserved(dispatching.send([]))).toMatchObject({ code: 'upstream_unavailable', attempts: [] })
  })

  it('refuses an address of a third party when no lookup can vouch for it', async () => {
    const failure = await unserved(dispatching.send(at(0, { endpoint: { egress: 'public_only' } })))
    expect(failure.attempts).toMatchObject([{ outcome: 'connect_failed' }])
    expect(asked()).toEqual([0, 0, 0, 0])
  })
})

describe('a client that leaves', () => {
  it.each(['nothing', 'headers'] as const)('ends the attempt that had sent %s, and the search', async after => {
    upstreams[0]!.always(stall(after))
    const leaving = new AbortController()
    const sending = unserved(dispatching.send([at(0), at(1)], stream, leaving.signal))
    const request = await upstreams[0]!.next()
    leaving.abort()
    expect(await sending).toMatchObject({ code: 'upstream_unavailable', attempts: [{ outcome: 'cancelled' }] })
    expect(await request.aborted).toBe(true)
    expect(asked()).toEqual([1, 0, 0, 0])
    expect(dispatching.reports).toEqual([])
  })

  it('while a connection is being made has shown that server nothing, and the attempts say so', async () => {
    // TLS to a server that never says a word of it.
    const mute = createServer(socket => socket.on('error', () => {}))
    mute.listen(0, '127.0.0.1')
    await once(mute, 'listening')
    const { port } = mute.address() as AddressInfo
    upstreams[0]!.always(boom)
    const leaving = new AbortController()
    const offers = [at(0), offerAt(`https://127.0.0.1:${port}/v1`, { name: 'mute' }), at(1)]
    const sending = unserved(dispatching.send(offers, stream, leaving.signal))
    const [socket] = (await once(mute, 'connection')) as [Socket]
    await once(socket, 'data')
    leaving.abort()
    expect((await sending).attempts).toMatchObject([{ outcome: 'server_error' }, { outcome: 'not_sent' }])
    await once(socket, 'close')
    expect(asked()).toEqual([1, 0, 0, 0])
    expect(dispatching.reports).toEqual(['failure u0/public-model server_error'])
    mute.close()
  })

  it('ends a whole answer that is still being made', async () => {
    upstreams[0]!.always(stall())
    const leaving = new AbortController()
    const sending = unserved(dispatching.send(at(0), {}, leaving.signal))
    const request = await upstreams[0]!.next()
    leaving.abort()
    expect(await sending).toMatchObject({ code: 'upstream_unavailable' })
    expect(await request.aborted).toBe(true)
  })

  it('ends the stream upstream, by its signal', async () => {
    upstreams[0]!.always(neverEnding())
    const leaving = new AbortController()
    const answered = await dispatching.send(at(0), stream, leaving.signal)
    leaving.abort()
    expect(await readStream(answered)).toMatchObject({ failure: { outcome: 'cancelled' } })
    expect(await upstreams[0]!.requests[0]!.aborted).toBe(true)
    expect(dispatching.reports).toEqual(['success u0/public-model'])
    expect(dispatching.health.inFlight('u0/public-model')).toBe(0)
  })

  it('ends the stream upstream, by no longer reading', async () => {
    upstreams[0]!.always(neverEnding())
    const answered = await dispatching.send(at(0), stream)
    if (answered.kind !== 'stream') throw new Error('the answer is no stream')
    await answered.chunks.read(() => answered.chunks.leave())
    expect(await upstreams[0]!.requests[0]!.aborted).toBe(true)
    expect(dispatching.reports).toEqual(['success u0/public-model'])
    expect(dispatching.health.inFlight('u0/public-model')).toBe(0)
  })

  it('had left before anything was sent', async () => {
    const failure = await unserved(dispatching.send(at(0), {}, AbortSignal.abort()))
    expect(failure).toMatchObject({ code: 'upstream_unavailable', attempts: [] })
    expect(asked()).toEqual([0, 0, 0, 0])
  })

  it('is told so where it is the gateway that stops, before anything was sent', async () => {
    const stopping = AbortSignal.abort(new ApiError('server_shutdown'))
    const failure = await unserved(dispatching.send(at(0), {}, stopping))
    expect(failure).toMatchObject({ code: 'server_shutdown', attempts: [] })
    expect(asked()).toEqual([0, 0, 0, 0])
  })
})

describe('connections', () => {
  /** So long a connection rests after a response. */
  const turn = () => new Promise(setImmediate)

  it('are kept for the next request after streams, whole answers and errors', async () => {
    const ports = new Set<number | undefined>()
    const behaviours = [answer(), boom, answer()].map(
      (behaviour): Behaviour =>
        (request, response) => {
          ports.add(response.socket?.remotePort)
          return behaviour(request, response)
        },
    )
    for (let round = 0; round < 10; round++) {
      upstreams[0]!.respondWith(...behaviours)
      await dispatching.send(at(0))
      await turn()
      await unserved(dispatching.send(at(0)))
      await turn()
      await readStream(await dispatching.send(at(0), stream))
      await turn()
    }
    expect(ports.size).toBe(1)
  })

  it('are kept where a server ends its response only a while after [DONE], which nobody waits for', async () => {
    const events = [role, contentChunk('x'.repeat(100_000)), chunk({}, 'stop'), '[DONE]']
    const isRead = Promise.withResolvers<void>()
    const beforeEvent = (index: number) => (index === events.length ? isRead.promise : undefined)
    upstreams[0]!.respondWith(sse([...events, 'the rest'], { beforeEvent }))
    await readStream(await dispatching.send(at(0), stream))
    isRead.resolve()
    expect(await upstreams[0]!.requests[0]!.aborted).toBe(false)
  })

  /** Writes for as long as somebody reads, and notes how much that was. */
  const endless =
    (code: number, type: string, begin: string): Behaviour =>
    async (_request, response) => {
      response.writeHead(code, { 'content-type': type })
      response.write(begin)
      const blocks = function* () {
        for (written = 0; ; written += block.length) yield block
      }
      await pipeline(Readable.from(blocks()), response).catch(() => {})
    }
  const block = Buffer.alloc(2 ** 16, ' ')
  let written: number
  const error = '{"error":{"message":"boom"}}'

  it.each<[what: string, behaviour: Behaviour, body: object]>([
    ['an error, where a whole answer was asked for', endless(500, 'application/json', error), {}],
    ['an error, where a stream was asked for', endless(500, 'application/json', error), stream],
    ['what follows [DONE]', endless(200, 'text/event-stream', streamBytes().toString()), stream],
  ])('are let go where a server goes on and on: %s', async (_what, behaviour, body) => {
    upstreams[0]!.respondWith(behaviour)
    await dispatching.send(at(0), body).then(readStream, () => {})
    expect(await upstreams[0]!.requests[0]!.aborted).toBe(true)
    // Most of it is in the buffers between here and there.
    expect(written).toBeLessThan(12 * 1024 * 1024)
  })

  it('that the upstream was just closing cost nothing', async () => {
    upstreams[0]!.respondWith(answer(), hangUp(), answer({ text: 'second connection' }))
    await dispatching.send(at(0))
    await turn()
    const answered = await dispatching.send(at(0))
    expect(answered).toMatchObject({ completion: { choices: [{ message: { content: 'second connection' } }] } })
    expect(answered.attempts).toHaveLength(1)
  })
})

it.each<[when: string, events: readonly unknown[]]>([
  ['before its first content', ['{"choices"']],
  ['in its middle', [role, contentChunk('one'), '{"choices"']],
])('a stream that cannot be read is ended upstream, %s', async (_when, events) => {
  upstreams[0]!.respondWith(sse(events, { ending: 'stall' }))
  const long = { connectMs: 600_000, firstTokenMs: 600_000, idleMs: 600_000, totalMs: 600_000 }
  const { failure } = await dispatching
    .send(at(0, { endpoint: { timeouts: long } }), stream)
    .then(readStream, failure => ({ failure }))
  expect(failure).not.toBeNull()
  expect(await upstreams[0]!.requests[0]!.aborted).toBe(true)
})

it('a stream that came all at once, but for the end of its response, waits for its reader all the same', async () => {
  upstreams[0]!.respondWith(rawResponse(streamBytes(), { framing: 'chunked', ending: 'stall' }))
  const streaming = await dispatching.send(at(0), stream)
  if (streaming.kind !== 'stream') throw new Error('the answer is no stream')
  const pause = Promise.withResolvers<void>()
  let taken = 0
  const reading = streaming.chunks.read(() => (taken++ === 0 ? pause.promise : undefined))
  await new Promise(setImmediate)
  expect(taken).toBe(1)
  pause.resolve()
  await reading
  expect(taken).toBe(2)
})

it('carries the credential as the dialect says, and none where there is none', async () => {
  const { dialect } = at(0).endpoint
  await dispatching.send(at(0, { endpoint: { dialect: { ...dialect, keyHeader: 'api-key' } } }))
  await dispatching.send(at(0, { endpoint: { apiKey: null } }))
  const [first, second] = upstreams[0]!.requests
  expect(first!.headers).toMatchObject({ 'api-key': 'upstream-secret' })
  expect(first!.headers).not.toHaveProperty('authorization')
  expect(second!.headers).not.toHaveProperty('authorization')
})

describe('health', () => {
  const inFlight = () => dispatching.health.inFlight('u0/public-model')

  it('counts a server as busy from when it is asked until its answer has ended', async () => {
    const gate = Promise.withResolvers<void>()
    upstreams[0]!.always(async (request, response) => {
      await gate.promise
      await answer()(request, response)
    })
    const sending = dispatching.send(at(0))
    await upstreams[0]!.next()
    expect(inFlight()).toBe(1)
    gate.resolve()
    await sending
    expect(inFlight()).toBe(0)
    const streamed = await dispatching.send(at(0), stream)
    expect(inFlight()).toBe(1)
    await readStream(streamed)
    expect(inFlight()).toBe(0)
    upstreams[0]!.always(boom)
    for (const body of [{}, stream]) await unserved(dispatching.send(at(0), body))
    expect(inFlight()).toBe(0)
  })

  it.each([[{}], [stream]])('measures how long an answer takes: %j', async body => {
    const predicted = (outputTokens: number | null) =>
      dispatching.health.predictMs('u0/public-model', { stream: body === stream, outputTokens })
    const startedMs = performance.now()
    for (let n = 0; n < 5; n++) {
      expect(predicted(null)).toBe(null)
      const answered = await dispatching.send(at(0), body)
      if (answered.kind === 'stream') await readStream(answered)
    }
    expect(predicted(null)).toBeGreaterThan(0)
    expect(predicted(null)).toBeLessThan(performance.now() - startedMs)
  })

  it.each([[{}], [stream]])(
    'keeps servers that fail at one customer’s request from that customer alone: %j',
    async body => {
      const bob = '0198c0de-0000-7000-8000-00000000000b'
      const offers = [at(0), at(1), at(2)]
      const poison = { ...body, messages: [{ role: 'user', content: 'poison' }] }
      for (const upstream of upstreams.slice(0, 3)) {
        upstream.always((request, response) =>
          (request.rawBody.includes('poison') ? boom : answer({ text: 'fine' }))(request, response),
        )
      }
      for (let n = 0; n < 12; n++) await unserved(dispatching.send(offers, poison))
      for (const { offerId } of offers) {
        expect(dispatching.health.state(offerId)).toBe('ejected')
        expect(dispatching.healthOf(bob).state(offerId)).toBe('open')
      }
      const answered = await dispatching.send(offers, body, undefined, bob)
      if (answered.kind === 'stream') await readStream(answered)
      expect(answered.attempts).toMatchObject([{ offerId: 'u0/public-model', outcome: 'answered' }])

      // A server that fails for others too is kept from all.
      upstreams[1]!.always(boom)
      for (let n = 0; n < 4; n++) await unserved(dispatching.send(offers[1]!, body, undefined, bob))
      expect(dispatching.healthOf('0198c0de-0000-7000-8000-00000000000c').state('u1/public-model')).toBe('ejected')
    },
  )

  it('hears when a request was sent: streams that began before the ejection do not end it', async () => {
    const gate = Promise.withResolvers<void>()
    const events = streamEvents({ pieces: ['a', 'b'] })
    upstreams[0]!.always(sse(events, { beforeEvent: index => (index === 2 ? gate.promise : undefined) }))
    const streams = [
      await dispatching.send(at(0), stream),
      await dispatching.send(at(0), stream),
      await dispatching.send(at(0), stream),
    ]
    upstreams[0]!.always(boom)
    for (let n = 0; n < 5; n++) await unserved(dispatching.send(at(0)))
    expect(dispatching.health.state('u0/public-model')).toBe('ejected')
    gate.resolve()
    for (const answered of streams) expect(await readStream(answered)).toMatchObject({ text: 'ab', failure: null })
    expect(dispatching.reports.filter(report => report === 'success u0/public-model')).toHaveLength(3)
    expect(dispatching.health.state('u0/public-model')).toBe('ejected')
  })
})
