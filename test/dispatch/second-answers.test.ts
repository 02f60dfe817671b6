// A server may send more answers than it was asked for. None of them, and no byte of one, may reach a request that it
// does not belong to. Every request has a token that its answer repeats.
import { once } from 'node:events'
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import fc from 'fast-check'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import type { Endpoint } from '../../src/base/domain/offer.ts'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import { UpstreamClient } from '../../src/wire/upstreams/upstream-client.ts'
import { authority, localhost } from './certificates.ts'
import { ann, limitsOf, offerAt, quarantineEnd, startDispatching, TICK_MS } from './dispatching.ts'
import { bodyOf, type EchoScript, writesOf } from './echo-script.ts'
import { type RawUpstream, type Respond, startRawUpstream } from './raw-upstream.ts'

beforeAll(() => setDefaultCACertificates([...getCACertificates('default'), authority]))

const bob = '0198c0de-0000-7000-8000-000000000003'

const started: { close(): unknown }[] = []
afterEach(async () => {
  for (const each of started.splice(0).reverse()) await each.close()
})

function startClient(tickMs?: number): UpstreamClient {
  const client = new UpstreamClient({
    version: '0.0.0-test',
    ...(tickMs !== undefined && { tickMs }),
    onUnsolicited: endpoint => reported.push(endpoint.endpointId),
  })
  started.push(client)
  return client
}
let reported: string[] = []
beforeEach(() => {
  reported = []
})

async function startUpstream(respond: Respond, identity?: typeof localhost): Promise<RawUpstream> {
  const upstream = await startRawUpstream(respond, identity)
  started.push(upstream)
  return upstream
}

/** Follows the script in the body of each request. */
const follow: Respond = async ({ socket }, body) => {
  for (const { afterMs, bytes } of writesOf(JSON.parse(body) as EchoScript)) {
    if (afterMs > 0) await delay(afterMs)
    if (socket.destroyed) return
    socket.write(bytes)
  }
}

const hoster = { kind: 'hoster', hosterId: '0198c0de-0000-7000-8000-000000000009' } as const

interface Sending {
  readonly endpoint?: Partial<Endpoint>
  readonly customerId?: string
  readonly stream?: boolean
}

/** Returns the complete body of the answer. */
async function send(
  client: UpstreamClient,
  { baseUrl }: Pick<RawUpstream, 'baseUrl'>,
  body: string,
  { endpoint = {}, customerId = ann, stream = false }: Sending = {},
): Promise<string> {
  const offer = offerAt(baseUrl, { endpoint })
  const exchange = await client.send({
    endpoint: offer.endpoint,
    customerId,
    path: '/chat/completions',
    body,
    stream,
    signal: new AbortController().signal,
    limits: limitsOf(offer.endpoint, stream),
    bytesMax: 64 * 1024,
    memory: uncounted,
  })
  if (!stream) return exchange.text
  let text = ''
  await exchange.read(piece => {
    text += piece
  })
  return text
}

let tokens = 0
const newToken = () => `token-${++tokens}`

/** Sends a script and expects its own answer. */
async function expectOwnAnswer(
  client: UpstreamClient,
  upstream: Pick<RawUpstream, 'baseUrl'>,
  script: Omit<EchoScript, 'token'>,
  sending?: Sending,
): Promise<void> {
  const token = newToken()
  expect(await send(client, upstream, JSON.stringify({ token, ...script }), sending)).toBe(bodyOf(token))
}

const once200 = { framing: 'length', answersAfterMs: 0 } as const
const connectionsOf = (upstream: RawUpstream) => upstream.connections.map(({ requests }) => requests.length)

describe.each<[name: string, endpoint: Partial<Endpoint>, identity?: typeof localhost]>([
  ['a local server', {}],
  ['a hoster', hoster],
  ['a cloud with TLS', { kind: 'cloud' }, localhost],
])('%s that answers one request twice', (_name, endpoint, identity) => {
  it.each([0, 1, 5, 20, 50, 200])('%d ms later: forty requests of two customers get their own answers', async ms => {
    const upstream = await startUpstream(follow, identity)
    await Promise.all(
      [false, true].flatMap(stream =>
        (['length', 'chunked'] as const).map(async framing => {
          const client = startClient()
          for (let request = 0; request < 40; request++) {
            const script = { framing, answersAfterMs: 8, ...(request === 1 && { repeatsAfterMs: ms }) }
            await expectOwnAnswer(client, upstream, script, { endpoint, stream, customerId: request % 2 ? ann : bob })
          }
        }),
      ),
    )
  })

  it.each(['length', 'chunked'] as const)('in two pieces, cut at every byte around the boundary: %s', async framing => {
    const upstream = await startUpstream(follow, identity)
    await Promise.all(
      Array.from({ length: 61 }, async (_, index) => {
        const client = startClient()
        for (const stream of [false, true]) {
          const script = { framing, answersAfterMs: 0, repeatsAfterMs: 5, cut: index - 30 }
          await expectOwnAnswer(client, upstream, script, { endpoint, stream })
          const next = { framing, answersAfterMs: 10 }
          for (let request = 0; request < 3; request++) {
            await expectOwnAnswer(client, upstream, next, { endpoint, stream })
          }
        }
      }),
    )
  })

  it('is not trusted for five minutes: every request gets a new connection', async () => {
    const upstream = await startUpstream(follow, identity)
    const client = startClient(TICK_MS)
    await expectOwnAnswer(client, upstream, once200, { endpoint })
    await quarantineEnd()
    await expectOwnAnswer(client, upstream, { ...once200, repeatsAfterMs: 0 }, { endpoint })
    await quarantineEnd()
    for (let request = 0; request < 3; request++) {
      await expectOwnAnswer(client, upstream, once200, { endpoint })
      await quarantineEnd()
    }
    expect(connectionsOf(upstream)).toEqual([2, 1, 1, 1])
    expect(reported).toEqual(['one'])
  })
})

it('random requests at two hosters and a local server at one origin, some answered twice, get their own answers', async () => {
  const upstream = await startUpstream(follow)
  const client = startClient()
  const endpoints: Partial<Endpoint>[] = Array.from({ length: 60 }, (_, at) => ({
    endpointId: `endpoint-${at}`,
    ...(at % 3 > 0 && hoster),
  }))
  const requests = fc.record({
    endpoint: fc.constantFrom(...endpoints),
    customerId: fc.constantFrom(ann, bob),
    stream: fc.boolean(),
    script: fc.record(
      {
        framing: fc.constantFrom('length', 'chunked'),
        answersAfterMs: fc.constantFrom(0, 0, 1, 5, 20),
        repeatsAfterMs: fc.constantFrom(0, 1, 5, 20, 50, 200),
        cut: fc.integer({ min: -60, max: 60 }),
      },
      { requiredKeys: ['framing', 'answersAfterMs'] },
    ),
  })
  const waiting = fc.sample(requests, { seed: 22, numRuns: 3_000 })
  await Promise.all(
    Array.from({ length: 40 }, async () => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        // One request of ten is answered twice.
        const { repeatsAfterMs, ...once } = next.script
        const script = waiting.length % 10 === 0 ? { repeatsAfterMs, ...once } : once
        await expectOwnAnswer(client, upstream, script as EchoScript, next)
      }
    }),
  )
})

describe.each([
  ['TCP', undefined],
  ['TLS', localhost],
])('an answer that arrives before its request (%s)', (_name, identity) => {
  const planted = 'HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nplanted'

  it('is not read, even if it arrived in the same turn as the request', async () => {
    const upstream = await startUpstream(follow, identity)
    const client = startClient(TICK_MS)
    await expectOwnAnswer(client, upstream, once200)
    await quarantineEnd()
    upstream.connections[0]!.socket.write(planted)
    await expectOwnAnswer(client, upstream, once200)
    expect(connectionsOf(upstream)).toEqual([1, 1])
    expect(reported).toEqual(['one'])
  })

  it('is not read, even if it arrived while this process stalled', async () => {
    const upstream = await startUpstream(follow, identity)
    const client = startClient(TICK_MS)
    await expectOwnAnswer(client, upstream, once200)
    const { socket } = upstream.connections[0]!
    const overMs = performance.now() + 300
    while (performance.now() < overMs);
    socket.write(planted)
    await expectOwnAnswer(client, upstream, once200)
    expect(connectionsOf(upstream)).toEqual([1, 1])
  })

  /** Exceeds the buffers between two sockets. */
  const large = JSON.stringify('x'.repeat(32 * 1024 * 1024))

  it.each([
    ['in one piece', planted.length],
    ['whose head has only begun', 4],
  ])('is rejected while the request is being written: %s', async (_name, bytes) => {
    const upstream = await startUpstream(() => {}, identity)
    const client = startClient()
    const answering = send(client, upstream, large)
    const { socket } = await upstream.next()
    await once(socket, 'data')
    socket.pause()
    socket.write(planted.slice(0, bytes))
    if (bytes < planted.length) {
      // The client reads the first bytes in a turn of their own: it runs in this process.
      for (let turn = 0; turn < 5; turn++) await nextTurn()
      socket.write(planted.slice(bytes))
    }
    await expect(answering).rejects.toMatchObject({ outcome: 'malformed' })
    socket.resume()
    expect(reported).toEqual(['one'])
  })

  it('is accepted if only an interim response came early', async () => {
    const upstream = await startUpstream(({ socket }) => void socket.write(planted), identity)
    const client = startClient()
    const answering = send(client, upstream, large)
    const { socket } = await upstream.next()
    await once(socket, 'data')
    socket.write('HTTP/1.1 100 Continue\r\n\r\n')
    expect(await answering).toBe('planted')
    expect(reported).toEqual([])
  })

  it('is ignored if it is the 408 with which a server closes an idle connection', async () => {
    const upstream = await startUpstream(follow, identity)
    const client = startClient(TICK_MS)
    await expectOwnAnswer(client, upstream, once200)
    const { socket, closed } = await upstream.next()
    socket.end('HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n')
    await closed
    for (let request = 0; request < 2; request++) {
      await expectOwnAnswer(client, upstream, once200)
      await quarantineEnd()
    }
    expect(connectionsOf(upstream)).toEqual([1, 2])
    expect(reported).toEqual([])
  })

  it('is not read on a used connection if it refuses the request, which is sent again on a new one', async () => {
    const refusal = 'HTTP/1.1 413 Content Too Large\r\ncontent-length: 7\r\n\r\ntoo big'
    const upstream = await startUpstream(({ socket }) => void socket.write(refusal), identity)
    const client = startClient(TICK_MS)
    await send(client, upstream, '{}')
    await quarantineEnd()
    const used = await upstream.next()
    const answering = send(client, upstream, large)
    await once(used.socket, 'data')
    used.socket.pause()
    used.socket.write(refusal.replace('big', 'bad'))
    expect(await answering).toBe('too big')
    used.socket.resume()
    expect(connectionsOf(upstream)).toEqual([1, 1])
    expect(reported).toEqual([])
  })
})

it('a connection of a server that speaks first is closed', async () => {
  const upstream = await startUpstream(follow)
  const client = startClient()
  const answering = send(client, upstream, JSON.stringify({ token: newToken(), ...once200 }))
  const { socket, requests } = await upstream.next()
  socket.write('HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nplanted')
  await expect(answering).rejects.toMatchObject({ outcome: 'connect_failed' })
  expect(requests).toEqual([])
})

describe('connections are shared', () => {
  /** Returns how many requests each connection had, after these requests in turn. */
  async function use(upstream: RawUpstream, sendings: readonly Sending[]): Promise<number[]> {
    const client = startClient(TICK_MS)
    for (const sending of sendings) {
      await expectOwnAnswer(client, upstream, once200, sending)
      await quarantineEnd()
    }
    return connectionsOf(upstream)
  }
  const local = (endpointId: string): Sending => ({ endpoint: { endpointId } })
  const ofHoster = (endpointId: string, customerId: string): Sending => ({
    endpoint: { ...hoster, endpointId },
    customerId,
  })

  it.each<[name: string, sendings: Sending[], connections: number[]]>([
    ['by the customers of a local server', [{ customerId: ann }, { customerId: bob }, { customerId: ann }], [3]],
    [
      'by the customers of a cloud',
      [
        { endpoint: { kind: 'cloud' }, customerId: ann },
        { endpoint: { kind: 'cloud' }, customerId: bob },
      ],
      [2],
    ],
    ['not by two local servers at one origin', [local('a'), local('b'), local('a'), local('b')], [2, 2]],
    [
      'not by two customers of a hoster',
      [ofHoster('a', ann), ofHoster('a', bob), ofHoster('a', ann), ofHoster('a', ann), ofHoster('a', bob)],
      [3, 2],
    ],
    ['not by two hosters at one origin', [ofHoster('a', ann), ofHoster('b', ann), ofHoster('a', ann)], [2, 1]],
    [
      'not before and after a change of the key',
      [{}, { endpoint: { apiKey: 'new' } }, { endpoint: { apiKey: 'new' } }, {}],
      [2, 2],
    ],
  ])('%s', async (_name, sendings, connections) => {
    expect(await use(await startUpstream(follow), sendings)).toEqual(connections)
  })

  it('not by two customers whose requests are dispatched to one hoster', async () => {
    const completion = JSON.stringify({ choices: [{ message: { content: 'x' }, finish_reason: 'stop' }] })
    const upstream = await startUpstream(
      ({ socket }) => void socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${completion.length}\r\n\r\n${completion}`),
    )
    const dispatching = startDispatching()
    started.push(dispatching)
    const offer = offerAt(upstream.baseUrl, { endpoint: hoster })
    for (const customerId of [ann, bob, ann]) {
      await dispatching.send(offer, {}, undefined, customerId)
      await quarantineEnd()
    }
    expect(connectionsOf(upstream)).toEqual([2, 1])
  })
})

describe('a connection is not reused', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance', 'setInterval', 'clearInterval'] }))
  afterEach(() => void vi.useRealTimers())

  async function pass(ms: number): Promise<void> {
    vi.advanceTimersByTime(ms)
    await new Promise(setImmediate)
  }

  const kept: Respond = ({ socket }, body) => {
    const answer = writesOf(JSON.parse(body) as EchoScript)[0]!.bytes
    socket.write(answer.replace('\r\n', '\r\nkeep-alive: timeout=60\r\n'))
  }

  it('after 100 requests', async () => {
    const upstream = await startUpstream(kept)
    const client = startClient()
    for (let request = 0; request < 101; request++) {
      await expectOwnAnswer(client, upstream, once200)
      await pass(300)
    }
    expect(connectionsOf(upstream)).toEqual([100, 1])
  })

  it('after a minute', async () => {
    const upstream = await startUpstream(kept)
    const client = startClient()
    for (let request = 0; request < 5; request++) {
      await expectOwnAnswer(client, upstream, once200)
      await pass(20_000)
    }
    expect(connectionsOf(upstream)).toEqual([3, 2])
  })
})
