import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { connect, type LookupFunction } from 'node:net'
import { getCACertificates, setDefaultCACertificates, type TLSSocket } from 'node:tls'
import { Worker } from 'node:worker_threads'
import fc from 'fast-check'
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Endpoint } from '../../src/base/domain/offer.ts'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import { UpstreamClient } from '../../src/wire/upstreams/upstream-client.ts'
import type { UpstreamExchange } from '../../src/wire/upstreams/upstream-exchange.ts'
import { GENEROUS_TIMEOUTS } from '../harness/timeouts.ts'
import { authority, elsewhere, localhost, untrusted } from './certificates.ts'
import { ann, limitsOf, offerAt, quarantineEnd, TICK_MS } from './dispatching.ts'
import { type RawUpstream, type Respond, type SeenConnection, startRawUpstream } from './raw-upstream.ts'

beforeAll(() => setDefaultCACertificates([...getCACertificates('default'), authority]))

let client: UpstreamClient
beforeEach(() => {
  client = new UpstreamClient({ version: '0.0.0-test', tickMs: TICK_MS })
})
const started: RawUpstream[] = []
afterEach(async () => {
  client.close()
  for (const upstream of started.splice(0)) {
    // Waits until the client has closed every connection it opened.
    await Promise.all(upstream.connections.map(connection => connection.closed))
    await upstream.close()
  }
})

async function startUpstream(respond: Respond, identity?: typeof localhost): Promise<RawUpstream> {
  const upstream = await startRawUpstream(respond, identity)
  started.push(upstream)
  return upstream
}

interface RequestOptions {
  body?: string
  stream?: boolean
  signal?: AbortSignal
  endpoint?: Partial<Endpoint>
  from?: UpstreamClient
}

function ask({ baseUrl }: Pick<RawUpstream, 'baseUrl'>, options: RequestOptions = {}): Promise<UpstreamExchange> {
  const { body = '{}', stream = false, signal = new AbortController().signal, from = client } = options
  const { endpoint } = offerAt(baseUrl, { endpoint: options.endpoint ?? {} })
  return from.send({
    endpoint,
    customerId: ann,
    path: '/chat/completions',
    body,
    stream,
    signal,
    limits: limitsOf(endpoint, stream),
    bytesMax: 16 * 1024 * 1024,
    memory: uncounted,
  })
}

const textOf = async (exchange: Promise<UpstreamExchange>) => (await exchange).text

/** Returns the text of an answer once its connection can be reused. */
async function textOnceIdle(upstream: RawUpstream, options?: RequestOptions): Promise<string> {
  const text = await textOf(ask(upstream, options))
  await quarantineEnd()
  return text
}

const turn = () => new Promise(setImmediate)

const answer = (text: string, headers = '') =>
  `HTTP/1.1 200 OK\r\n${headers}content-length: ${Buffer.byteLength(text)}\r\n\r\n${text}`

/**
 * Answers with the numbers of the connection and of the request on it: `2.1` for the first request on the
 * second connection.
 */
const numbered =
  (more: { headers?: string; trailing?: string } = {}): Respond =>
  ({ socket, place, requests }) => {
    socket.write(answer(`${place}.${requests.length}`, more.headers) + (more.trailing ?? ''))
  }

const upstreamNumbering = (more?: { headers?: string; trailing?: string }, identity?: typeof localhost) =>
  startUpstream(numbered(more), identity)

describe.each([
  ['TCP', undefined],
  ['TLS', localhost],
])('a connection (%s)', (_name, identity) => {
  it('is reused', async () => {
    const upstream = await upstreamNumbering({}, identity)
    expect(await textOnceIdle(upstream)).toBe('1.1')
    expect(await textOnceIdle(upstream)).toBe('1.2')
    expect(await textOnceIdle(upstream)).toBe('1.3')
  })

  it('serves one request at a time, and the most recently used one serves next', async () => {
    const upstream = await upstreamNumbering({}, identity)
    await Promise.all([ask(upstream), ask(upstream), ask(upstream)])
    await quarantineEnd()
    expect(upstream.connections.map(({ requests }) => requests.length)).toEqual([1, 1, 1])
    const first = await textOnceIdle(upstream)
    expect(first).toMatch(/\.2$/)
    expect(await textOnceIdle(upstream)).toBe(first.replace('.2', '.3'))
  })

  it.each([['connection: close'], ['keep-alive: timeout=1'], ['keep-alive: timeout=0']])(
    'is not reused after `%s`',
    async header => {
      const upstream = await upstreamNumbering({ headers: `${header}\r\n` }, identity)
      expect(await textOnceIdle(upstream)).toBe('1.1')
      await upstream.connections[0]!.closed
      expect(await textOnceIdle(upstream)).toBe('2.1')
    },
  )

  it('is reused after `keep-alive: timeout=60`', async () => {
    const upstream = await upstreamNumbering({ headers: 'keep-alive: timeout=60\r\n' }, identity)
    expect(await textOnceIdle(upstream)).toBe('1.1')
    expect(await textOnceIdle(upstream)).toBe('1.2')
  })

  it('is reused if its response ended while its reader was far behind', async () => {
    const heldBytes = 256 * 1024
    const isRead = Promise.withResolvers<void>()
    const upstream = await startUpstream(async (connection, body) => {
      if (body !== '"stream"') return numbered({ headers: 'connection: close\r\n' })(connection, body)
      connection.socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${1 + heldBytes + 1}\r\n\r\n1`)
      await isRead.promise
      // The last byte exceeds what may wait for the reader.
      connection.socket.write('2'.repeat(heldBytes + 1))
    }, identity)
    const exchange = await ask(upstream, { body: '"stream"', stream: true })
    let bytes = 0
    await exchange.read(async piece => {
      bytes += piece.length
      isRead.resolve()
      if (bytes === 1) await expect.poll(() => textOf(ask(upstream))).toBe('1.2')
    })
    expect(bytes).toBe(1 + heldBytes + 1)
  })

  it('closes when the keep-alive time of the server ends', async () => {
    const upstream = await upstreamNumbering({ headers: 'keep-alive: timeout=2\r\n' }, identity)
    expect(await textOnceIdle(upstream)).toBe('1.1')
    await upstream.connections[0]!.closed
    expect(await textOnceIdle(upstream)).toBe('2.1')
  })

  it('closes when that time ends within the turn of its response', async () => {
    const upstream = await upstreamNumbering({ headers: 'keep-alive: timeout=2\r\n' }, identity)
    expect(await textOf(ask(upstream))).toBe('1.1')
    const overMs = performance.now() + 1_000
    while (performance.now() < overMs);
    await upstream.connections[0]!.closed
  })

  it('is not reused after surplus bytes', async () => {
    const upstream = await upstreamNumbering({ trailing: answer('planted') }, identity)
    expect(await textOnceIdle(upstream)).toBe('1.1')
    expect(await textOnceIdle(upstream)).toBe('2.1')
    await upstream.connections[0]!.closed
  })

  it('is not reused before the bytes that follow its response are read', async () => {
    const upstream = await startUpstream(({ socket, place }) => {
      // Each write is a TLS record, which is read separately. Without TLS, the first write fills the read buffer.
      const head = 'HTTP/1.1 200 OK\r\ncontent-length: 65000\r\n'
      const padding = 64 * 1024 - 65_000 - head.length - 'x: \r\n\r\n'.length
      socket.write(`${head}x: ${' '.repeat(padding)}\r\n\r\n${String(place).repeat(65_000)}`)
      socket.write(answer('planted'))
    }, identity)
    expect((await textOf(ask(upstream))).slice(0, 9)).toBe('111111111')
    expect((await textOf(ask(upstream))).slice(0, 9)).toBe('222222222')
  })

  it('closes when the server sends an unsolicited response', async () => {
    const upstream = await upstreamNumbering({}, identity)
    expect(await textOnceIdle(upstream)).toBe('1.1')
    const { socket, closed } = await upstream.next()
    socket.write('HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n')
    await closed
    expect(await textOnceIdle(upstream)).toBe('2.1')
  })

  it('closes when the server closes it', async () => {
    const upstream = await upstreamNumbering({}, identity)
    expect(await textOnceIdle(upstream)).toBe('1.1')
    const { socket, closed } = await upstream.next()
    socket.end()
    await closed
    expect(await textOnceIdle(upstream)).toBe('2.1')
    expect(upstream.connections).toHaveLength(2)
  })
})

describe('an idle connection that the server is closing', () => {
  const hangUpOnSecond =
    (hangUp: (connection: SeenConnection) => void): Respond =>
    (connection, body) => {
      if (connection.requests.length === 2) hangUp(connection)
      else numbered()(connection, body)
    }

  it.each<[how: string, hangUp: (connection: SeenConnection) => void]>([
    ['with FIN', ({ socket }) => socket.end()],
    ['with RST', ({ socket }) => socket.resetAndDestroy()],
  ])('is replaced without a failed attempt: %s', async (_how, hangUp) => {
    const upstream = await startUpstream(hangUpOnSecond(hangUp))
    expect(await textOnceIdle(upstream)).toBe('1.1')
    expect(await textOnceIdle(upstream)).toBe('2.1')
    expect(upstream.connections.map(({ requests }) => requests.length)).toEqual([2, 1])
  })

  it('is replaced even if another one is closing too', async () => {
    const upstream = await startUpstream(hangUpOnSecond(({ socket }) => socket.end()))
    await Promise.all([ask(upstream), ask(upstream)])
    await quarantineEnd()
    expect(await textOnceIdle(upstream)).toBe('3.1')
    expect(upstream.connections.flatMap(({ requests }) => requests)).toHaveLength(4)
  })

  it.each([
    ['a part of a head', 'HTTP/1.1 2'],
    ['an interim response', 'HTTP/1.1 100 Continue\r\n\r\n'],
    ['a head', 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n'],
  ])('fails the attempt if the server sent %s', async (_what, sent) => {
    const upstream = await startUpstream(hangUpOnSecond(({ socket }) => socket.end(sent)))
    expect(await textOnceIdle(upstream)).toBe('1.1')
    await expect(ask(upstream)).rejects.toMatchObject({ outcome: 'server_error' })
    expect(upstream.connections).toHaveLength(1)
  })

  it('is replaced only once', async () => {
    const upstream = await startUpstream((connection, body) => {
      if (connection.place === 1 && connection.requests.length === 1) numbered()(connection, body)
      else connection.socket.end()
    })
    expect(await textOnceIdle(upstream)).toBe('1.1')
    await expect(ask(upstream)).rejects.toMatchObject({ outcome: 'server_error' })
    expect(upstream.connections.map(({ requests }) => requests.length)).toEqual([2, 1])
  })
})

it.each(['100 Continue', '103 Early Hints'])('reads one hundred %s and no more', async status => {
  const interim = `HTTP/1.1 ${status}\r\n\r\n`
  const upstream = await startUpstream((connection, body) => {
    const isFirst = connection.requests.length === 1
    connection.socket.write(interim.repeat(isFirst ? 100 : 101))
    numbered()(connection, body)
  })
  expect(await textOnceIdle(upstream)).toBe('1.1')
  await expect(ask(upstream)).rejects.toMatchObject({ outcome: 'malformed' })
})

it('reads no body in too many small chunks', async () => {
  const chunks = (count: number, bytes: number) => `${bytes.toString(16)}\r\n${' '.repeat(bytes)}\r\n`.repeat(count)
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n'
  const upstream = await startUpstream(({ socket, requests }) => {
    const body = requests.length === 1 ? chunks(17_000, 8) : chunks(18_000, 1)
    socket.write(`${head}${body}0\r\n\r\n`)
  })
  expect((await textOnceIdle(upstream)).trim()).toBe('')
  await expect(ask(upstream)).rejects.toMatchObject({ outcome: 'malformed' })
})

it('does not retry when a new connection is closed', async () => {
  const upstream = await startUpstream(({ socket }) => void socket.end())
  await expect(ask(upstream)).rejects.toMatchObject({ outcome: 'server_error' })
  expect(upstream.connections).toHaveLength(1)
})

describe('an answer that arrives before the request is written', () => {
  /** Exceeds the buffers between two sockets. */
  const body = JSON.stringify('x'.repeat(32 * 1024 * 1024))

  it.each([['connection: close'], ['connection: keep-alive']])(
    'is accepted, and its connection is not reused: %s',
    async header => {
      const upstream = await startUpstream(() => {})
      const answering = ask(upstream, { body })
      const { socket, requests, closed } = await upstream.next()
      await once(socket, 'data')
      socket.pause()
      socket.write(`HTTP/1.1 413 Content Too Large\r\n${header}\r\ncontent-length: 7\r\n\r\ntoo big`)
      const { head, text } = await answering
      expect({ status: head.status, text }).toEqual({ status: 413, text: 'too big' })
      socket.resume()
      await closed
      expect(requests).toEqual([])
    },
  )
})

describe('TLS', () => {
  it('is refused for another name, every time', async () => {
    const upstream = await upstreamNumbering({}, elsewhere)
    for (let round = 0; round < 3; round++) {
      await expect(ask(upstream)).rejects.toMatchObject({
        outcome: 'connect_failed',
        message: expect.stringContaining('ERR_TLS_CERT_ALTNAME_INVALID'),
      })
    }
    expect(upstream.connections.flatMap(({ requests }) => requests)).toEqual([])
  })

  it('is refused from an untrusted authority', async () => {
    const upstream = await upstreamNumbering({}, untrusted)
    await expect(ask(upstream)).rejects.toMatchObject({
      outcome: 'connect_failed',
      message: expect.stringContaining('UNABLE_TO_VERIFY_LEAF_SIGNATURE'),
    })
    expect(upstream.connections.flatMap(({ requests }) => requests)).toEqual([])
  })

  it('resumes an earlier session', async () => {
    const upstream = await startUpstream(
      ({ socket }) =>
        void socket.write(answer(String((socket as TLSSocket).isSessionReused()), 'connection: close\r\n')),
      localhost,
    )
    expect(await textOnceIdle(upstream)).toBe('false')
    expect(await textOnceIdle(upstream)).toBe('true')
  })

  it.each<[how: string, hangUp: (connection: SeenConnection) => void]>([
    ['closed', ({ socket }) => socket.end()],
    ['reset', ({ socket }) => socket.resetAndDestroy()],
    ['answered with something else', ({ socket }) => void socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')],
  ])('fails at once if the handshake is %s', async (_how, hangUp) => {
    const upstream = await startUpstream(() => {})
    const answering = ask({ baseUrl: upstream.baseUrl.replace('http:', 'https:') })
    const connection = await upstream.next()
    await once(connection.socket, 'data')
    hangUp(connection)
    await expect(answering).rejects.toMatchObject({
      outcome: 'connect_failed',
      message: expect.not.stringContaining('connect limit'),
    })
  })
})

/**
 * Accepts at most two connections before `resume`: the kernel drops the first packet of a third one. Answers
 * each request with `ok`.
 */
async function startFullServer(): Promise<{ port: number; resume: () => void; close: () => Promise<number> }> {
  const gate = new Int32Array(new SharedArrayBuffer(4))
  const worker = new Worker(
    `const { parentPort, workerData } = require('node:worker_threads')
    const server = require('node:net').createServer(socket => {
      socket.on('error', () => {}).on('data', () => socket.write('HTTP/1.1 200 OK\\r\\ncontent-length: 2\\r\\n\\r\\nok'))
    })
    server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
      parentPort.postMessage(server.address().port)
      Atomics.wait(workerData, 0, 0)
    })`,
    { eval: true, workerData: gate },
  )
  const [port] = await once(worker, 'message')
  const resume = () => {
    Atomics.store(gate, 0, 1)
    Atomics.notify(gate, 0)
  }
  return { port, resume, close: () => worker.terminate() }
}

it('waits for the first of several addresses until TCP resends a lost packet after a second', async () => {
  const server = await startFullServer()
  const others = [connect(server.port, '127.0.0.1'), connect(server.port, '127.0.0.1')]
  await Promise.all(others.map(other => once(other, 'connect')))
  const publicClient = new UpstreamClient({
    version: '0.0.0-test',
    publicLookup: (_host, _options, callback) => {
      callback(null, [
        { address: '127.0.0.1', family: 4 },
        { address: '127.0.0.2', family: 4 }, // no server listens here
      ])
      // By then the first packet is sent and lost.
      void turn().then(turn).then(server.resume)
    },
  })
  const answering = ask(
    { baseUrl: `http://far.example:${server.port}/v1` },
    { from: publicClient, endpoint: { egress: 'public_only' } },
  )
  expect(await textOf(answering)).toBe('ok')
  publicClient.close()
  for (const other of others) other.destroy()
  await server.close()
})

describe('a cancelled request', () => {
  const notSent = { outcome: 'not_sent' }

  it('opens no connection during the lookup of its host', async () => {
    const lookup = Promise.withResolvers<Parameters<LookupFunction>[2]>()
    const publicClient = new UpstreamClient({
      version: '0.0.0-test',
      publicLookup: (_host, _options, callback) => lookup.resolve(callback),
    })
    const upstream = await upstreamNumbering()
    const { baseUrl } = upstream
    const leaving = new AbortController()
    const answering = ask(
      { baseUrl: baseUrl.replace('127.0.0.1', 'localhost') },
      { from: publicClient, endpoint: { egress: 'public_only' }, signal: leaving.signal },
    )
    const found = await lookup.promise
    leaving.abort()
    await expect(answering).rejects.toMatchObject(notSent)
    found(null, [{ address: '127.0.0.1', family: 4 }])
    expect(await textOf(ask(upstream))).toBe('1.1')
    publicClient.close()
  })

  it('closes its connection while it connects', async () => {
    const upstream = await upstreamNumbering()
    const leaving = new AbortController()
    const answering = ask(upstream, { signal: leaving.signal })
    leaving.abort()
    await expect(answering).rejects.toMatchObject(notSent)
    expect(await textOf(ask(upstream))).toMatch(/\.1$/)
    expect(upstream.connections.flatMap(({ requests }) => requests)).toHaveLength(1)
  })

  it('closes its connection during the TLS handshake', async () => {
    const upstream = await startUpstream(() => {})
    const leaving = new AbortController()
    const answering = ask({ baseUrl: upstream.baseUrl.replace('http:', 'https:') }, { signal: leaving.signal })
    const { socket, closed } = await upstream.next()
    await once(socket, 'data')
    leaving.abort()
    await expect(answering).rejects.toMatchObject(notSent)
    await closed
  })

  it('closes its connection while it is written', async () => {
    const upstream = await startUpstream(() => {})
    const leaving = new AbortController()
    const answering = ask(upstream, { body: JSON.stringify('x'.repeat(32 * 1024 * 1024)), signal: leaving.signal })
    const { socket, closed } = await upstream.next()
    await once(socket, 'data')
    socket.pause()
    leaving.abort()
    await expect(answering).rejects.toMatchObject({ outcome: 'cancelled' })
    socket.resume()
    await closed
  })

  it('is not sent if it is cancelled before', async () => {
    const upstream = await upstreamNumbering()
    await expect(ask(upstream, { signal: AbortSignal.abort() })).rejects.toMatchObject(notSent)
    expect(await textOf(ask(upstream))).toBe('1.1')
  })
})

describe.each([
  ['TCP', undefined],
  ['TLS', localhost],
])('a gateway that stalled for longer than the idle limit (%s)', (_name, identity) => {
  it('reads the waiting data before it enforces the limit', async () => {
    // Until the first write has ended, the second would wait in this process for the end of the loop below.
    const written = Promise.withResolvers<void>()
    const upstream = await startUpstream(({ socket }) => {
      socket.write('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n1', () => written.resolve())
    }, identity)
    const exchange = await ask(upstream, {
      stream: true,
      endpoint: { timeouts: { ...GENEROUS_TIMEOUTS, idleMs: 500 } },
    })
    const first = Promise.withResolvers<void>()
    let text = ''
    const read = exchange.read(piece => {
      exchange.contentStarted(true)
      text += piece
      first.resolve()
    })
    await Promise.all([first.promise, written.promise])
    upstream.connections[0]!.socket.write('2')
    const overMs = performance.now() + 1_000
    while (performance.now() < overMs);
    await read
    expect(text).toBe('12')
  })
})

describe.each([
  ['TCP', undefined],
  ['TLS', localhost],
])('a slow reader (%s)', (_name, identity) => {
  /** Exceeds the buffers between two sockets. */
  const bytes = 32 * 1024 * 1024
  const block = Buffer.from(Array.from({ length: 64 * 1024 }, (_, at) => (at * at) % 251))
  const sent = createHash('sha256')
  for (let at = 0; at < bytes; at += block.length) sent.update(block)
  const sentHash = sent.digest('hex')

  it('pauses the upstream and then gets everything', async () => {
    const written: string[] = []
    const upstream = await startUpstream(async ({ socket }, body) => {
      socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${bytes}\r\n\r\n`)
      for (let at = 0; at < bytes; at += block.length) {
        if (!socket.write(block)) await once(socket, 'drain')
      }
      written.push(body)
    }, identity)
    const read = async (body: string, pause: Promise<void> | undefined) => {
      const received = createHash('sha256')
      const exchange = await ask(upstream, { body, stream: true })
      await exchange.read(piece => {
        received.update(piece)
        return pause
      })
      return received.digest('hex')
    }
    const pause = Promise.withResolvers<void>()
    const slow = read('"slow"', pause.promise)
    expect(await read('"quick"', undefined)).toBe(sentHash)
    await expect.poll(() => written).toEqual(['"quick"'])
    pause.resolve()
    expect(await slow).toBe(sentHash)
    await expect.poll(() => written).toEqual(['"quick"', '"slow"'])
  })
})

describe('a machine without resources for a connection', () => {
  it.each(['EMFILE', 'ENFILE', 'EADDRNOTAVAIL', 'ENOBUFS', 'ENOMEM'])(
    'is not a fault of the server: %s',
    async code => {
      const upstream = await startUpstream(({ socket }) => void socket.write(answer('hello')))
      let reports = 0
      const usedUp = new UpstreamClient({
        version: '0.0.0-test',
        publicLookup: (_host, _options, callBack) => callBack(Object.assign(new Error(code), { code }), []),
        onUsedUp: () => reports++,
      })
      const url = new URL(upstream.baseUrl)
      const failing = () =>
        ask({ baseUrl: `http://name.example:${url.port}/v1` }, { endpoint: { egress: 'public_only' }, from: usedUp })
      await expect(failing()).rejects.toMatchObject({ outcome: 'not_sent', reason: 'connections_used_up' })
      await expect(failing()).rejects.toMatchObject({ outcome: 'not_sent' })
      expect(reports).toBe(1)
      usedUp.close()
    },
  )
})

describe('close()', () => {
  it('ends all exchanges, closes all connections and sends nothing more', async () => {
    const upstream = await startUpstream(({ socket }, body) => {
      if (body === '"whole"') socket.write(answer('hello'))
      if (body === '"stream"') socket.write('HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhello')
    })
    const stream = await ask(upstream, { body: '"stream"', stream: true })
    const started = Promise.withResolvers<void>()
    const streaming = stream.read(() => started.resolve())
    await started.promise
    const waiting = ask(upstream, { body: '"nothing"' })
    const shaking = ask({ baseUrl: upstream.baseUrl.replace('http:', 'https:') })
    expect(await textOnceIdle(upstream, { body: '"whole"' })).toBe('hello')
    const connecting = ask({ baseUrl: upstream.baseUrl.replace('127.0.0.1', 'localhost') })
    client.close()
    for (const cut of [streaming, waiting]) await expect(cut).rejects.toMatchObject({ outcome: 'cancelled' })
    for (const cut of [shaking, connecting, ask(upstream)]) {
      await expect(cut).rejects.toMatchObject({ outcome: 'not_sent' })
    }
    await Promise.all(upstream.connections.map(({ closed }) => closed))
    expect(upstream.connections.flatMap(({ requests }) => requests).sort()).toEqual([
      '"nothing"',
      '"stream"',
      '"whole"',
    ])
  })

  it('leaves nothing that keeps the process alive', async () => {
    const upstream = await startUpstream(({ socket }, body) => {
      if (body === '"answered"') socket.write(answer('hello'))
    })
    const { endpoint } = offerAt(upstream.baseUrl)
    const script = `
      import { UpstreamClient } from ${JSON.stringify(new URL('../../src/wire/upstreams/upstream-client.ts', import.meta.url))}
      const client = new UpstreamClient({ version: '0.0.0-test' })
      const limits = { connectMs: 3600e3, firstByteMs: 3600e3, idleMs: 3600e3, totalMs: 3600e3 }
      const ask = body => client.send({
        endpoint: ${JSON.stringify(endpoint)}, customerId: 'ann', path: '/chat/completions', body, stream: false, limits, signal: new AbortController().signal,
      })
      await ask('"answered"')
      await new Promise(setImmediate)
      const waiting = ask('"waiting"').catch(failure => console.log(failure.outcome))
      await ask('"answered"')
      client.close()
      await waiting`
    const child = spawn(process.execPath, ['--input-type=module', '--eval', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let output = ''
    child.stdout.setEncoding('utf8').on('data', piece => {
      output += piece
    })
    expect(await once(child, 'close')).toEqual([0, null])
    expect(output).toBe('cancelled\n')
  })
})

describe.each([
  ['TCP', undefined],
  ['TLS', localhost],
])('two hundred concurrent requests (%s)', (_name, identity) => {
  interface Script {
    readonly framing: 'length' | 'chunked' | 'close'
    readonly repeats: number
    /** Positions where the response is split into writes, in thousandths. */
    readonly cuts: readonly number[]
    /** Position where the server closes the connection, in thousandths. */
    readonly lostAt: number | null
  }
  interface Plan {
    readonly script: Script
    readonly stream: boolean
    /** The number of bytes after which the reader leaves, and how it leaves. */
    readonly leaves: { readonly at: number; readonly how: 'abort' | 'signal' | 'release' } | null
  }
  const thousandths = fc.noBias(fc.nat(999))
  const onceIn = <T>(times: number, arbitrary: fc.Arbitrary<T>) =>
    fc.oneof({ weight: times - 1, arbitrary: fc.constant(null) }, { weight: 1, arbitrary })
  const plans: fc.Arbitrary<Plan> = fc.record({
    script: fc.record({
      framing: fc.constantFrom('length', 'length', 'chunked', 'chunked', 'close'),
      repeats: fc.oneof(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 30_000 })),
      cuts: fc.array(thousandths, { maxLength: 4 }),
      lostAt: onceIn(8, thousandths),
    }),
    stream: fc.boolean(),
    leaves: onceIn(3, fc.record({ at: fc.nat(5_000), how: fc.constantFrom('abort', 'signal', 'release') })),
  })
  const bodyOf = (id: number, repeats: number) => `<${id}>`.repeat(repeats)

  function responseOf(id: number, { framing, repeats }: Script): string {
    const body = bodyOf(id, repeats)
    if (framing === 'length') return answer(body)
    if (framing === 'close') return `HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n${body}`
    const chunks = body.match(/.{1,1000}/g)!.map(chunk => `${chunk.length.toString(16)}\r\n${chunk}\r\n`)
    return `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${chunks.join('')}0\r\n\r\n`
  }

  const play: Respond = async ({ socket }, request) => {
    const { id, script } = JSON.parse(request) as { id: number; script: Script }
    const whole = responseOf(id, script)
    const placeOf = (part: number) => Math.floor((part / 1_000) * whole.length)
    const response = script.lostAt === null ? whole : whole.slice(0, placeOf(script.lostAt))
    let from = 0
    for (const to of [...script.cuts.map(placeOf).sort((a, b) => a - b), response.length]) {
      if (socket.destroyed) return
      socket.write(response.slice(from, to))
      from = to
      await turn()
    }
    if (script.lostAt !== null || script.framing === 'close') socket.end()
  }

  it('get their own answers', async () => {
    const upstream = await startUpstream(play, identity)
    const seen = { whole: 0, left: 0, lost: 0 }

    async function run({ script, stream, leaves }: Plan, id: number): Promise<void> {
      const expected = bodyOf(id, script.repeats)
      const leaving = new AbortController()
      let text = ''
      let hasLeft = false
      try {
        const exchange = await ask(upstream, { body: JSON.stringify({ id, script }), stream, signal: leaving.signal })
        if (stream) {
          await exchange.read(piece => {
            text += piece.toString('latin1')
            if (hasLeft || leaves === null || text.length < leaves.at) return
            hasLeft = true
            if (leaves.how === 'signal') leaving.abort()
            else exchange[leaves.how]()
          })
        } else text = exchange.text
      } catch (failure) {
        expect(failure).toMatchObject({ outcome: hasLeft ? 'cancelled' : 'server_error' })
        expect(hasLeft || script.lostAt !== null).toBe(true)
        expect(expected.startsWith(text)).toBe(true)
        seen[hasLeft ? 'left' : 'lost']++
        return
      }
      const mayLackItsEnd = hasLeft || (script.framing === 'close' && script.lostAt !== null)
      expect(mayLackItsEnd ? expected.slice(0, text.length) : expected).toBe(text)
      seen[hasLeft ? 'left' : 'whole']++
    }

    const waiting = [...fc.sample(plans, { seed: 9112, numRuns: 1_000 }).entries()]
    await Promise.all(
      Array.from({ length: 200 }, async () => {
        for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) await run(next[1], next[0])
      }),
    )
    expect(Math.min(seen.whole, seen.left, seen.lost)).toBeGreaterThan(50)
    expect(upstream.connections.length).toBeLessThan(700)
  })
})
