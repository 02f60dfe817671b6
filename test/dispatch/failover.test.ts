import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import { ApiError } from '../../src/base/domain/errors.ts'
import type { Unserved } from '../../src/base/domain/upstream-failure.ts'
import {
  type AnswerOptions,
  answer,
  type Behaviour,
  chunk,
  contentChunk,
  hangUp,
  neverEnding,
  rawResponse,
  sse,
  stall,
  status,
  streamBytes,
  streamEvents,
  usageOf,
} from '../harness/scripted-upstream.ts'
import { GENEROUS_TIMEOUTS } from '../harness/timeouts.ts'
import { useUpstream } from '../harness/use-test-app.ts'
import { ann, offerAt, quarantineEnd, readStream, startDispatching, useDispatching } from './dispatching.ts'

const upstreams = Array.from({ length: 4 }, () => useUpstream('test'))
const dispatching = useDispatching('test')

const stream = { stream: true }
const role = chunk({ role: 'assistant', content: '' })
const boom = status(500, { error: { message: 'boom' } })
const at = (index: number, more: Parameters<typeof offerAt>[1] = {}) =>
  offerAt(upstreams[index]!.baseUrl, { name: `u${index}`, ...more })
const requestCounts = () => upstreams.map(upstream => upstream.requests.length)
const unserved = (sending: Promise<unknown>): Promise<Unserved> =>
  sending.then(
    () => Promise.reject(new Error('the request was answered')),
    failure => failure,
  )

it('reports the time of each request that it writes for a server', async () => {
  upstreams[0]!.always(boom)
  upstreams[1]!.always(answer({ text: 'a' }))
  await dispatching.send([at(0), at(1)])
  const expected = { customerId: ann, workMs: expect.any(Number) }
  expect(dispatching.worked).toEqual([expected, expected])
})

describe('failing over', () => {
  it('tries the offers in order until one answers, and records the attempts', async () => {
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
    expect(requestCounts()).toEqual([1, 1, 1, 0])
    expect(dispatching.reports).toEqual([
      'failure u0/public-model server_error',
      'failure u1/public-model server_error',
      'success u2/public-model',
    ])
  })

  it('also works without streaming', async () => {
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

  describe('an answer without output that only a claim of the server explains', () => {
    const claims: [claim: string, AnswerOptions][] = [
      ['a content filter', { text: '', finishReason: 'content_filter', usage: usageOf(9, 1) }],
      ['length, far from the limit of 256 tokens', { text: '', finishReason: 'length', usage: usageOf(9, 1) }],
    ]
    for (const [claim, options] of claims)
      for (const body of [{}, stream])
        it(`counts as a fault of a hoster: ${claim}, ${JSON.stringify(body)}`, async () => {
          upstreams[0]!.always(answer(options))
          const hoster = { endpoint: { kind: 'hoster' as const, hosterId: 'h', hosterShareBps: 8_000 } }
          for (let sent = 1; sent <= 5; sent++) {
            expect(dispatching.health.state('u0/public-model')).toBe('open')
            const answered = await dispatching.send(at(0, hoster), body)
            if (answered.kind === 'stream') await readStream(answered)
          }
          expect(dispatching.reports).toEqual(Array(5).fill('failure u0/public-model empty'))
          expect(dispatching.health.state('u0/public-model')).toBe('ejected')
        })

    it('does not count against your own servers, or if the limit was nearly reached', async () => {
      upstreams[0]!.always(answer(claims[0]![1]))
      await dispatching.send(at(0))
      upstreams[0]!.always(answer({ text: '', finishReason: 'length', usage: usageOf(9, 250) }))
      await dispatching.send(at(0, { endpoint: { kind: 'hoster', hosterId: 'h' } }))
      expect(dispatching.reports).toEqual(Array(2).fill('success u0/public-model'))
    })
  })

  it('ends with the first content: a later failure is thrown to the reader', async () => {
    upstreams[0]!.always(sse([role, contentChunk('Hel')], { ending: 'reset' }))
    const seen = await readStream(await dispatching.send([at(0), at(1)], stream))
    expect(seen).toMatchObject({ text: 'Hel', failure: { outcome: 'server_error' } })
    expect(requestCounts()).toEqual([1, 0, 0, 0])
    expect(dispatching.reports).toEqual(['failure u0/public-model server_error'])
  })

  it('counts a rejection after the first content as a fault of the server', async () => {
    upstreams[0]!.always(sse([role, contentChunk('Hel'), { error: { message: 'no', code: 400 } }]))
    const seen = await readStream(await dispatching.send([at(0), at(1)], stream))
    expect(seen).toMatchObject({ text: 'Hel', failure: { outcome: 'request_rejected' } })
    expect(dispatching.reports).toEqual(['failure u0/public-model server_error'])
  })

  it('moves on from a server that exceeds its first-token limit', async () => {
    upstreams[0]!.always(stall('headers'))
    const SHORT_TIMEOUTS = { timeouts: { ...GENEROUS_TIMEOUTS, firstTokenMs: 50 } }
    const answered = await dispatching.send([at(0, { endpoint: SHORT_TIMEOUTS }), at(1)], stream)
    expect(answered.offer.offerId).toBe('u1/public-model')
    expect(await upstreams[0]!.requests[0]!.aborted).toBe(true)
    await readStream(answered)
  })

  it.each([[{}], [stream]])('waits only briefly for the end of an error: %j', async body => {
    upstreams[0]!.always(
      rawResponse('{"error":', { status: 429, framing: 'length', contentLength: 99, ending: 'stall' }),
    )
    // With this limit alone, no other server would be tried in time.
    const timeouts = { ...GENEROUS_TIMEOUTS, firstTokenMs: GENEROUS_TIMEOUTS.totalMs, idleMs: 50 }
    const answered = await dispatching.send([at(0, { endpoint: { timeouts } }), at(1)], body)
    expect(answered.attempts.map(attempt => attempt.outcome)).toEqual(['busy', 'answered'])
    if (answered.kind === 'stream') await readStream(answered)
  })

  it('does not wait for a connection longer than the connect limit', async () => {
    // The kernel accepts the connection, but the server never answers the TLS handshake.
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

  it('tries three servers for each model, and all fallback models', async () => {
    for (const upstream of upstreams) upstream.always(boom)
    const models = ['a', 'b', 'c', 'd', 'e', 'f', 'g']
    const offers = models.flatMap(modelId => [0, 1, 2, 3].map(index => at(index, { modelId })))
    const { attempts } = await unserved(dispatching.send(offers))
    expect(attempts.map(attempt => attempt.offerId)).toEqual(
      models.flatMap(modelId => [`u0/${modelId}`, `u1/${modelId}`, `u2/${modelId}`]),
    )
    upstreams[3]!.always(answer())
    const answered = await dispatching.send([...offers, at(3, { modelId: 'h' })])
    expect(answered.offer.offerId).toBe('u3/h')
    expect(answered.attempts).toHaveLength(22)
  })

  it('takes the number of servers from the configuration', async () => {
    const dispatching = startDispatching({ attemptsMax: 1 })
    onTestFinished(() => dispatching.close())
    upstreams[0]!.always(boom)
    const offers = [at(0), at(1), at(0, { modelId: 'b' })]
    const { attempts } = await unserved(dispatching.send(offers))
    expect(attempts.map(attempt => attempt.offerId)).toEqual(['u0/public-model', 'u0/b'])
  })

  it('does not return to a server that could not be reached', async () => {
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
    // Time limits are enforced up to 0.1 s late, so the first attempt uses more than its half.
    const { attempts } = await unserved(dispatching.send([at(0, brief), at(1, brief), at(2, brief)]))
    expect(attempts.length).toBeLessThan(3)
  })

  const halfBody = rawResponse('{"choices":[{"message":', { framing: 'length', contentLength: 999, ending: 'stall' })

  it.each([
    ['says nothing', stall(), 'first_token_timeout'],
    ['sends only the headers', stall('headers'), 'first_token_timeout'],
    ['sends only half of its answer', halfBody, 'server_error'],
  ])('a server that %s leaves time for the next, whole answers too', async (_name, behaviour, outcome) => {
    upstreams[0]!.always(behaviour)
    upstreams[1]!.always(answer({ text: 'from the second' }))
    // Without a limit of its own for the first byte, and between bytes, the first server would use up the deadline.
    const timeouts = { ...GENEROUS_TIMEOUTS, firstTokenMs: 3_600_000, idleMs: 3_600_000, totalMs: 4_000 }
    const offers = [at(0, { endpoint: { timeouts } }), at(1, { endpoint: { timeouts } })]
    const answered = await dispatching.send(offers)
    expect(answered.attempts).toMatchObject([{ outcome }, { outcome: 'answered' }])
  })

  it.each([
    ['the first byte', stall(), { firstTokenMs: 10, tokenMs: 1 }, 'first_token_timeout'],
    ['the rest after the first byte', halfBody, { idleMs: 50 }, 'server_error'],
  ])('waits for %s of a whole answer no longer than its limit', async (_name, behaviour, limits, outcome) => {
    upstreams[0]!.always(behaviour)
    const timeouts = { ...GENEROUS_TIMEOUTS, ...limits }
    const { attempts } = await unserved(dispatching.send(at(0, { endpoint: { timeouts } })))
    expect(attempts).toMatchObject([{ outcome }])
    expect(attempts[0]!.elapsedMs).toBeLessThan(GENEROUS_TIMEOUTS.firstTokenMs)
  })

  it('does not take white space for the first byte of a whole answer', async () => {
    const blanks = rawResponse(Array(400).fill(' \n'), {
      framing: 'chunked',
      betweenPieces: () => new Promise(resolve => setTimeout(resolve, 5)),
      ending: 'stall',
    })
    upstreams[0]!.always(blanks)
    const timeouts = { ...GENEROUS_TIMEOUTS, firstTokenMs: 100, tokenMs: 0 }
    const { attempts } = await unserved(dispatching.send(at(0, { endpoint: { timeouts } })))
    expect(attempts).toMatchObject([{ outcome: 'first_token_timeout' }])
  })
})

describe('a prompt that is too long for a server', () => {
  const tooLong = status(400, { error: { message: "This model's maximum context length is 10 tokens." } })
  const withContext = (index: number, modelId: string, contextTokens: number) => ({
    ...at(index, { modelId }),
    contextTokens,
  })

  it('goes on to an offer with a larger context', async () => {
    upstreams[0]!.always(tooLong)
    const offers = [
      withContext(0, 'a', 8_192),
      withContext(1, 'b', 8_192),
      withContext(2, 'c', 4_096),
      withContext(3, 'd', 16_384),
    ]
    const answered = await dispatching.send(offers)
    expect(answered.attempts).toMatchObject([
      { offerId: 'u0/a', outcome: 'request_rejected' },
      { offerId: 'u3/d', outcome: 'answered' },
    ])
    expect(dispatching.reports).toEqual(['success u3/d'])
  })

  it('is refused if no server has a larger context, or if all that have one refuse it', async () => {
    for (const upstream of upstreams) upstream.always(tooLong)
    const small = await unserved(dispatching.send([withContext(0, 'a', 8_192), withContext(1, 'b', 8_192)]))
    expect(small).toMatchObject({ code: 'context_length_exceeded', attempts: [{ offerId: 'u0/a' }] })
    const large = await unserved(dispatching.send([withContext(0, 'a', 8_192), withContext(1, 'b', 16_384)]))
    expect(large).toMatchObject({ code: 'context_length_exceeded', attempts: [{}, { offerId: 'u1/b' }] })
  })

  it('is not refused if a server with a larger context fails: a retry may succeed', async () => {
    upstreams[0]!.always(tooLong)
    upstreams[1]!.always(boom)
    const failure = await unserved(dispatching.send([withContext(0, 'a', 8_192), withContext(1, 'b', 16_384)]))
    expect(failure).toMatchObject({ code: 'all_hosters_failed' })
  })
})

describe('giving up', () => {
  it('reports that all servers failed, without details', async () => {
    for (const upstream of upstreams) upstream.always(status(500, { error: { message: `at ${upstream.baseUrl}` } }))
    const failure = await unserved(dispatching.send([at(0), at(1)]))
    expect(failure).toMatchObject({ code: 'all_hosters_failed', retryAfterS: undefined })
    expect(failure.message).not.toContain('127.0.0.1')
    expect(failure.facts).toEqual({
      tried: [0, 1].map(index => ({
        model: 'public-model',
        provider: 'local',
        endpoint: `u${index}`,
        hoster_id: null,
        outcome: 'server_error',
      })),
      not_tried: [],
    })
    expect(failure.upstreamMessages).toEqual(['at [address]', 'at [address]'])
    expect(failure.attempts).toHaveLength(2)
  })

  it('names the models that were tried and those that were not, with reasons', async () => {
    const dispatching = startDispatching({ attemptsMax: 2 })
    onTestFinished(() => dispatching.close())
    await upstreams[0]!.close()
    upstreams[1]!.always(boom)
    upstreams[2]!.always(status(400, { error: { message: "This model's maximum context length is 10 tokens." } }))
    const offers = [at(0), at(1), at(2), at(0, { modelId: 'b' }), at(2, { modelId: 'b' }), at(3, { modelId: 'c' })]
    const large = { ...at(1, { modelId: 'd' }), contextTokens: 16_384 }
    const failure = await unserved(dispatching.send([...offers, large]))
    expect(failure.message).toBe(
      'Every server that was tried failed; you were not charged. ' +
        'Tried: public-model (2 servers); b (1 server); d (1 server). ' +
        'Not tried: public-model, beyond the allowed number of attempts (1 server); ' +
        'b, at an endpoint without a connection (1 server); c, without a larger context (1 server). ' +
        'Retry later, or relax the constraints of the request.',
    )
    expect(failure.facts.not_tried).toMatchObject([
      { model: 'public-model', endpoint: 'u2', reason: 'attempts_max' },
      { model: 'b', endpoint: 'u0', reason: 'endpoint_unreachable' },
      { model: 'c', endpoint: 'u3', reason: 'context_too_small' },
    ])
  })

  it('reports when to retry if every server was busy', async () => {
    upstreams[0]!.always(status(429, {}, { 'retry-after': '9' }))
    upstreams[1]!.always(status(503, {}, { 'retry-after-ms': '2500' }))
    expect(await unserved(dispatching.send([at(0), at(1)]))).toMatchObject({ retryAfterS: 3 })
    upstreams[1]!.always(boom)
    expect(await unserved(dispatching.send([at(0), at(1)]))).toMatchObject({
      retryAfterS: undefined,
      shouldRetry: false,
    })
    upstreams[1]!.always(status(429, {}, { 'retry-after': '0' }))
    expect(await unserved(dispatching.send(at(1)))).toMatchObject({ retryAfterS: 1 })
    upstreams[1]!.always(status(429, {}, { 'retry-after': '999999999' }))
    expect(await unserved(dispatching.send(at(1)))).toMatchObject({ retryAfterS: 86_400 })
    upstreams[1]!.always(status(429))
    expect(await unserved(dispatching.send(at(1)))).toMatchObject({ retryAfterS: 1, shouldRetry: true })
  })

  it('ignores a Retry-After date in the past', async () => {
    upstreams[0]!.always(status(503, {}, { 'retry-after': 'Thu, 01 Jan 1970 00:00:00 GMT' }))
    expect(await unserved(dispatching.send(at(0)))).toMatchObject({ retryAfterS: undefined })
    expect(dispatching.reports).toEqual(['failure u0/public-model server_error'])
  })

  it.each([400, 413, 422])('stops at a %s: another server would refuse the same request', async code => {
    const error = {
      message: "Unsupported value: 'x' (see http://10.0.0.7/docs)",
      param: 'response_format',
      code: 'bad',
    }
    upstreams[0]!.always(status(code, { error }))
    const failure = await unserved(dispatching.send([at(0), at(1)], stream))
    expect(failure).toMatchObject({
      code: 'upstream_rejected',
      param: 'response_format',
      attempts: [{ outcome: 'request_rejected' }],
    })
    expect(failure.message).toBe("The model server refused the request: Unsupported value: 'x' (see [address])")
    expect(requestCounts()).toEqual([1, 0, 0, 0])
    expect(dispatching.reports).toEqual([])
  })

  it('reports a context that is too long with its own code', async () => {
    upstreams[0]!.always(status(400, { error: { message: "This model's maximum context length is 10 tokens." } }))
    expect(await unserved(dispatching.send(at(0)))).toMatchObject({ code: 'context_length_exceeded' })
  })

  it('is overloaded without resources for a connection, and blames no server', async () => {
    const dispatching = startDispatching({
      publicLookup: (_host, _options, callBack) => callBack(Object.assign(new Error('EMFILE'), { code: 'EMFILE' }), []),
    })
    onTestFinished(() => dispatching.close())
    const offer = offerAt('http://name.example/v1', { endpoint: { egress: 'public_only' } })
    const failure = await unserved(dispatching.send([offer, at(1)]))
    expect(failure).toMatchObject({ code: 'overloaded', retryAfterS: 1, attempts: [{ outcome: 'not_sent' }] })
    expect(failure.message).toContain('cannot open another connection')
    expect(dispatching.reports).toEqual([])
  })

  it('fails without offers', async () => {
    expect(await unserved(dispatching.send([]))).toMatchObject({ code: 'upstream_unavailable', attempts: [] })
  })

  it('refuses a public_only endpoint without a public lookup', async () => {
    const failure = await unserved(dispatching.send(at(0, { endpoint: { egress: 'public_only' } })))
    expect(failure.attempts).toMatchObject([{ outcome: 'connect_failed' }])
    expect(requestCounts()).toEqual([0, 0, 0, 0])
  })
})

describe('a client that disconnects', () => {
  it.each(['nothing', 'headers'] as const)(
    'ends the attempt after the server sent %s, and tries no other server',
    async after => {
      upstreams[0]!.always(stall(after))
      const leaving = new AbortController()
      const sending = unserved(dispatching.send([at(0), at(1)], stream, leaving.signal))
      const request = await upstreams[0]!.next()
      leaving.abort()
      expect(await sending).toMatchObject({ code: 'upstream_unavailable', attempts: [{ outcome: 'cancelled' }] })
      expect(await request.aborted).toBe(true)
      expect(requestCounts()).toEqual([1, 0, 0, 0])
      expect(dispatching.reports).toEqual([])
    },
  )

  it('during the TLS handshake leaves an attempt that was not sent', async () => {
    // A server that never answers the TLS handshake.
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
    expect(requestCounts()).toEqual([1, 0, 0, 0])
    expect(dispatching.reports).toEqual(['failure u0/public-model server_error'])
    mute.close()
  })

  it('ends a non-streaming answer that is being generated', async () => {
    upstreams[0]!.always(stall())
    const leaving = new AbortController()
    const sending = unserved(dispatching.send(at(0), {}, leaving.signal))
    const request = await upstreams[0]!.next()
    leaving.abort()
    expect(await sending).toMatchObject({ code: 'upstream_unavailable' })
    expect(await request.aborted).toBe(true)
  })

  it('ends the upstream stream through its signal', async () => {
    upstreams[0]!.always(neverEnding())
    const leaving = new AbortController()
    const answered = await dispatching.send(at(0), stream, leaving.signal)
    leaving.abort()
    expect(await readStream(answered)).toMatchObject({ failure: { outcome: 'cancelled' } })
    expect(await upstreams[0]!.requests[0]!.aborted).toBe(true)
    expect(dispatching.reports).toEqual(['success u0/public-model'])
    expect(dispatching.health.inFlight('u0/public-model')).toBe(0)
  })

  it('ends the upstream stream when the reader leaves', async () => {
    upstreams[0]!.always(neverEnding())
    const answered = await dispatching.send(at(0), stream)
    if (answered.kind !== 'stream') throw new Error('the answer is no stream')
    await answered.chunks.read(() => answered.chunks.leave())
    expect(await upstreams[0]!.requests[0]!.aborted).toBe(true)
    expect(dispatching.reports).toEqual(['success u0/public-model'])
    expect(dispatching.health.inFlight('u0/public-model')).toBe(0)
  })

  it('before anything is sent makes no attempt', async () => {
    const failure = await unserved(dispatching.send(at(0), {}, AbortSignal.abort()))
    expect(failure).toMatchObject({ code: 'upstream_unavailable', attempts: [] })
    expect(requestCounts()).toEqual([0, 0, 0, 0])
  })

  it('gets server_shutdown if the gateway stops before anything is sent', async () => {
    const stopping = AbortSignal.abort(new ApiError('server_shutdown'))
    const failure = await unserved(dispatching.send(at(0), {}, stopping))
    expect(failure).toMatchObject({ code: 'server_shutdown', attempts: [] })
    expect(requestCounts()).toEqual([0, 0, 0, 0])
  })
})

describe('connections', () => {
  it('are reused after streams, complete answers and errors', async () => {
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
      await quarantineEnd()
      await unserved(dispatching.send(at(0)))
      await quarantineEnd()
      await readStream(await dispatching.send(at(0), stream))
      await quarantineEnd()
    }
    expect(ports.size).toBe(1)
  })

  it('are reused if a server ends its response some time after [DONE]', async () => {
    const events = [role, contentChunk('x'.repeat(100_000)), chunk({}, 'stop'), '[DONE]']
    const isRead = Promise.withResolvers<void>()
    const beforeEvent = (index: number) => (index === events.length ? isRead.promise : undefined)
    upstreams[0]!.respondWith(sse([...events, 'the rest'], { beforeEvent }))
    await readStream(await dispatching.send(at(0), stream))
    isRead.resolve()
    expect(await upstreams[0]!.requests[0]!.aborted).toBe(false)
  })

  /** Writes until the connection closes, and counts the bytes in `written`. */
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
    ['an error without streaming', endless(500, 'application/json', error), {}],
    ['an error with streaming', endless(500, 'application/json', error), stream],
    ['data after [DONE]', endless(200, 'text/event-stream', streamBytes().toString()), stream],
  ])('are closed if a server never stops sending: %s', async (_what, behaviour, body) => {
    upstreams[0]!.respondWith(behaviour)
    await dispatching.send(at(0), body).then(readStream, () => {})
    expect(await upstreams[0]!.requests[0]!.aborted).toBe(true)
    // Most of these bytes are in the buffers of the sockets.
    expect(written).toBeLessThan(12 * 1024 * 1024)
  })

  it('that the upstream was closing are replaced without a failed attempt', async () => {
    upstreams[0]!.respondWith(answer(), hangUp(), answer({ text: 'second connection' }))
    await dispatching.send(at(0))
    await quarantineEnd()
    const answered = await dispatching.send(at(0))
    expect(answered).toMatchObject({ completion: { choices: [{ message: { content: 'second connection' } }] } })
    expect(answered.attempts).toHaveLength(1)
  })
})

it.each<[when: string, events: readonly unknown[]]>([
  ['before its first content', ['{"choices"']],
  ['in its middle', [role, contentChunk('one'), '{"choices"']],
])('ends a malformed stream upstream, %s', async (_when, events) => {
  upstreams[0]!.respondWith(sse(events, { ending: 'stall' }))
  const long = { connectMs: 600_000, firstTokenMs: 600_000, tokenMs: 0, idleMs: 600_000, totalMs: 600_000 }
  const { failure } = await dispatching
    .send(at(0, { endpoint: { timeouts: long } }), stream)
    .then(readStream, failure => ({ failure }))
  expect(failure).not.toBeNull()
  expect(await upstreams[0]!.requests[0]!.aborted).toBe(true)
})

it('waits for the reader even if the whole stream arrived at once', async () => {
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

it('sends the credential in the header of the dialect, and none without a key', async () => {
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

  it('counts a request as in flight until its answer ends', async () => {
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

  it.each([[{}], [stream]])('ejects servers that fail for one customer only for that customer: %j', async body => {
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

    // A server that also fails for others is ejected for all.
    upstreams[1]!.always(boom)
    for (let n = 0; n < 4; n++) await unserved(dispatching.send(offers[1]!, body, undefined, bob))
    expect(dispatching.healthOf('0198c0de-0000-7000-8000-00000000000c').state('u1/public-model')).toBe('ejected')
  })

  it('knows when a request was sent: streams from before the ejection do not end it', async () => {
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
