import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { listenForTest, openClient } from '../../../test/harness/raw-client.ts'
import { WAIT_OPTIONS } from '../../../test/harness/timeouts.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import { seededRandom } from '../../wire/demo-model/seeded-random.ts'
import { ConnectionWatch } from '../connection-watch.ts'
import { EventStream } from '../event-stream.ts'
import type { GenerationRequest, GenerationResponse } from '../generation-exchange.ts'
import { NodeResponse } from '../node-exchange.ts'
import { HEAD_BYTES_MAX } from '../node-server.ts'
import { PlainServer } from './plain-server.ts'

const keepAliveMs = 75_000
const slowReaderMs = 30_000

type Serving = { request: GenerationRequest; response: GenerationResponse }

/** A server with a plain server at two addresses, which echo their requests unless a test serves them. */
async function startServer(serve: (serving: Serving) => unknown = echo) {
  const nodeListener = vi.fn<RequestListener>(echoByNode)
  const served: Serving[] = []
  const opened: Socket[] = []
  const server = createServer(options, nodeListener)
  const routes = ['/chat', '/chat/later'].map(path => ({
    method: 'POST',
    path,
    serve(request: GenerationRequest, response: GenerationResponse) {
      served.push({ request, response })
      serve({ request, response })
    },
  }))
  const watch = new ConnectionWatch(server, {
    connectionsMax: 100,
    slowReaderMs,
    servers: [new PlainServer(server, { routes, keepAliveMs })],
  })
  server.on('connection', socket => opened.push(socket))
  /** Waits until the server has read this many bytes of the connection that was opened at that position. */
  const hasRead = (bytes: number, position = 0) =>
    vi.waitFor(() => expect(opened[position]?.bytesRead ?? 0).toBeGreaterThanOrEqual(bytes), WAIT_OPTIONS)
  return { server, watch, served, nodeListener, opened, hasRead, port: await listenForTest(server) }
}

const options = {
  keepAliveTimeout: keepAliveMs,
  maxHeaderSize: HEAD_BYTES_MAX,
  requireHostHeader: false,
  connectionsCheckingInterval: 20,
}

/** Answers with the request, for comparison with node:http. */
async function echo({ request, response }: Serving): Promise<void> {
  const body = (await request.readBody(1_000_000, uncounted)).toString('latin1')
  reply(response, JSON.stringify({ rawHeaders: request.rawHeaders, body }))
}

const echoByNode: RequestListener = (request, response) => {
  let body = ''
  request.setEncoding('latin1').on('data', piece => {
    body += piece
  })
  request.on('end', () => reply(new NodeResponse(response), JSON.stringify({ rawHeaders: request.rawHeaders, body })))
  request.on('error', () => {})
}

function reply(response: GenerationResponse, text: string): void {
  response.send(200, ['content-type', 'application/json', 'content-length', String(Buffer.byteLength(text))], text)
}

/** Opens a client and waits until its request has reached `serve`. */
async function openServed(port: number, served: readonly Serving[]) {
  const client = openClient(port)
  client.socket.write(chat('a'))
  await vi.waitFor(() => expect(served).toHaveLength(1), WAIT_OPTIONS)
  return client
}

/** Opens a client that does not read its answer, for `replyLong`. */
async function openUnread(port: number, opened: readonly Socket[], request = chat('a')) {
  const client = openClient(port)
  client.socket.pause()
  client.socket.write(request)
  await vi.waitFor(() => expect(opened[0]?.writableNeedDrain).toBe(true), WAIT_OPTIONS)
  return client
}

/** Answers with more than the kernel buffers for a client that does not read. */
function replyLong({ response }: Serving): void {
  reply(response, 'x'.repeat(20_000_000))
}

/** Counts copied bytes from now to the end of the test. */
function countCopiedBytes(): { bytes: number } {
  const copied = { bytes: 0 }
  const { concat } = Buffer
  const { copy } = Buffer.prototype
  const spies = [
    vi.spyOn(Buffer, 'concat').mockImplementation((...args) => {
      const joined = concat(...args)
      copied.bytes += joined.length
      return joined
    }),
    vi.spyOn(Buffer.prototype, 'copy').mockImplementation(function (this: Buffer, ...args) {
      const bytes = copy.apply(this, args)
      copied.bytes += bytes
      return bytes
    }),
  ]
  onTestFinished(() => {
    for (const spy of spies) spy.mockRestore()
  })
  return copied
}

function chat(body: string, field = ''): string {
  return `POST /chat HTTP/1.1\r\nHost: h\r\n${field}Content-Length: ${body.length}\r\n\r\n${body}`
}

const bodiesOf = (text: string) => Array.from(text.matchAll(/"body":"([^"]*)"/g), ([, body]) => body)

describe('a connection', () => {
  it('serves plain requests without node:http', async () => {
    const { port, served, nodeListener } = await startServer()
    const client = openClient(port)
    for (const body of ['a', 'b', 'c']) {
      client.socket.write(chat(body))
      await vi.waitFor(() => expect(bodiesOf(client.read)).toContain(body), WAIT_OPTIONS)
    }
    expect(served).toHaveLength(3)
    expect(nodeListener).not.toHaveBeenCalled()
  })

  it('serves a request in two pieces, wherever it is cut', async () => {
    const { port, served, opened, hasRead } = await startServer()
    const client = openClient(port)
    const request = chat('body')
    for (let at = 1; at < request.length; at++) {
      const before = opened[0]?.bytesRead ?? 0
      client.socket.write(request.slice(0, at))
      await hasRead(before + at)
      expect(served).toHaveLength(at - 1)
      client.socket.write(request.slice(at))
      await vi.waitFor(() => expect(bodiesOf(client.read)).toHaveLength(at), WAIT_OPTIONS)
    }
    expect(served).toHaveLength(request.length - 1)
  })

  it('is handed to node:http for good at the first request that is not plain', async () => {
    const { port, served, nodeListener } = await startServer()
    const client = openClient(port)
    const requests = [chat('a'), 'GET / HTTP/1.1\r\nHost: h\r\n\r\n', chat('b'), chat('c')]
    for (const [index, request] of requests.entries()) {
      client.socket.write(request)
      await vi.waitFor(() => expect(bodiesOf(client.read)).toHaveLength(index + 1), WAIT_OPTIONS)
    }
    expect(bodiesOf(client.read)).toEqual(['a', '', 'b', 'c'])
    expect(served).toHaveLength(1)
    expect(nodeListener).toHaveBeenCalledTimes(3)
  })

  it('answers several pipelined requests in order', async () => {
    const { port, served, nodeListener, hasRead } = await startServer(() => {})
    const client = await openServed(port, served)
    const ahead = chat('b') + chat('c') + chat('d'.repeat(1000))
    client.socket.write(ahead)
    await hasRead(chat('a').length + ahead.length)
    expect(served).toHaveLength(1)
    echo(served[0]!)
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['a', 'b', 'c', 'd'.repeat(1000)]), WAIT_OPTIONS)
    expect(nodeListener).toHaveBeenCalledTimes(3)
  })

  it('serves one pipelined request without node:http', async () => {
    const { port, served, nodeListener, hasRead } = await startServer(() => {})
    const client = await openServed(port, served)
    client.socket.write(chat('b'))
    await hasRead(2 * chat('a').length)
    echo(served[0]!)
    await vi.waitFor(() => expect(served).toHaveLength(2), WAIT_OPTIONS)
    echo(served[1]!)
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['a', 'b']), WAIT_OPTIONS)
    expect(nodeListener).not.toHaveBeenCalled()
  })

  it('serves a pipelined request of the maximum size without node:http', async () => {
    const { port, served, nodeListener, hasRead } = await startServer(() => {})
    const client = await openServed(port, served)
    const long = 'b'.repeat(64 * 1024 - chat('b'.repeat(10_000)).length + 10_000)
    client.socket.write(chat(long))
    await hasRead(chat('a').length + 64 * 1024)
    echo(served[0]!)
    await vi.waitFor(() => expect(served).toHaveLength(2), WAIT_OPTIONS)
    echo(served[1]!)
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['a', long]), WAIT_OPTIONS)
    expect(nodeListener).not.toHaveBeenCalled()
  })

  it('serves a pipelined request that comes byte by byte, without copying it for each byte', async () => {
    const { port, served, opened } = await startServer(() => {})
    const client = await openServed(port, served)
    const long = 'b'.repeat(20_000)
    const copied = countCopiedBytes()
    for (const byte of Buffer.from(chat(long))) opened[0]!.emit('data', Buffer.from([byte]))
    expect(copied.bytes).toBeLessThan(10 * long.length)
    echo(served[0]!)
    await vi.waitFor(() => expect(served).toHaveLength(2), WAIT_OPTIONS)
    echo(served[1]!)
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['a', long]), WAIT_OPTIONS)
  })

  it('ends with the answer when more than the limit was pipelined, and notices until then that the client leaves', async () => {
    const { port, served, hasRead } = await startServer(() => {})
    const [staying, leaving] = [openClient(port), openClient(port)]
    const ahead = chat('b'.repeat(60_000)).repeat(30)
    for (const { socket } of [staying, leaving]) socket.write(chat('a'))
    await vi.waitFor(() => expect(served).toHaveLength(2), WAIT_OPTIONS)
    for (const { socket } of [staying, leaving]) socket.write(ahead)
    for (const position of [0, 1]) await hasRead(ahead.length, position)
    const [first, second] = served as [Serving, Serving]
    const onClose = [vi.fn(), vi.fn()]
    first.response.onceClosed(onClose[0]!)
    second.response.onceClosed(onClose[1]!)
    leaving.socket.destroy()
    await vi.waitFor(() => expect(onClose.map(({ mock }) => mock.calls.length).sort()).toEqual([0, 1]), WAIT_OPTIONS)
    echo(onClose[0]!.mock.calls.length === 0 ? first : second)
    await vi.waitFor(() => expect(staying.isEnded).toBe(true), WAIT_OPTIONS)
    expect(bodiesOf(staying.read)).toEqual(['a'])
    expect(served).toHaveLength(2)
  })

  it('reads on after its last answer until the client ends its side, because a reset would destroy the answer', async () => {
    const { port, served, opened, hasRead } = await startServer(() => {})
    const client = await openServed(port, served)
    const more = 'b'.repeat(1_000_000)
    client.socket.write(more)
    await hasRead(more.length)
    reply(served[0]!.response, 'x'.repeat(200_000))
    await vi.waitFor(() => expect(client.isEnded).toBe(true), WAIT_OPTIONS)
    client.socket.write(more)
    await hasRead(chat('a').length + 2 * more.length)
    expect(opened[0]!.destroyed).toBe(false)
    client.socket.end()
    await vi.waitFor(() => expect(opened[0]!.destroyed).toBe(true), WAIT_OPTIONS)
    expect(client.read).toMatch(/\r\n\r\nx+$/)
    expect(client.read.length).toBeGreaterThan(200_000)
    expect(client.error).toBeNull()
    expect(served).toHaveLength(1)
  })

  it('is closed two seconds after its last answer if the client does not end its side', async () => {
    const { port, watch, opened } = await startServer(({ response }) => {
      response.send(503, ['content-length', '2', 'connection', 'close'], 'no')
    })
    const client = openClient(port)
    client.socket.write(chat('a'))
    await vi.waitFor(() => expect(opened[0]?.writableFinished).toBe(true), WAIT_OPTIONS)
    watch.check(performance.now())
    expect(opened[0]!.destroyed).toBe(false)
    watch.check(performance.now() + 2_000)
    expect(opened[0]!.destroyed).toBe(true)
    await vi.waitFor(() => expect(client.read).toMatch(/\r\n\r\nno$/), WAIT_OPTIONS)
  })

  it('is handed to node:http when a request comes in many small pieces', async () => {
    const { port, served, nodeListener, hasRead } = await startServer()
    const client = openClient(port)
    const body = '0123456789'.repeat(3)
    const request = chat(body)
    const headBytes = request.length - body.length
    client.socket.write(request.slice(0, headBytes))
    for (let bytes = headBytes; bytes < request.length; bytes++) {
      await hasRead(bytes)
      client.socket.write(request[bytes]!)
    }
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual([body]), WAIT_OPTIONS)
    expect(nodeListener).toHaveBeenCalledTimes(1)
    expect(served).toEqual([])
  })

  it('is handed to node:http when a request comes before the client has read the last answer', async () => {
    const { port, served, nodeListener, opened } = await startServer(replyLong)
    const client = await openUnread(port, opened)
    client.socket.write(chat('b'))
    await vi.waitFor(() => expect(nodeListener).toHaveBeenCalledTimes(1), WAIT_OPTIONS)
    expect(served).toHaveLength(1)
    client.socket.resume()
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['b']), WAIT_OPTIONS)
    expect(client.read.length).toBeGreaterThan(20_000_000)
  })

  it('delivers a complete answer to a client that then sends half a request and ends its side', async () => {
    const { port, watch, opened, hasRead } = await startServer(replyLong)
    const client = await openUnread(port, opened)
    client.socket.end(chat('b').slice(0, 20))
    await hasRead(chat('a').length + 20)
    await vi.waitFor(() => expect(opened[0]!.readableEnded).toBe(true), WAIT_OPTIONS)
    watch.check(performance.now() + 10_000)
    client.socket.resume()
    await vi.waitFor(() => expect(client.isEnded).toBe(true), WAIT_OPTIONS)
    expect(client.read.length).toBeGreaterThan(20_000_000)
    expect(client.read.slice(-100)).toContain('xHTTP/1.1 400 ')
  })

  it.each(['Connection: close\r\n', 'Connection: Close\r\n'])(
    'is closed after the answer to a request with %j',
    async field => {
      const { port } = await startServer()
      const client = openClient(port)
      client.socket.write(chat('a', field))
      await vi.waitFor(() => expect(client.isEnded).toBe(true), WAIT_OPTIONS)
      expect(bodiesOf(client.read)).toEqual(['a'])
    },
  )

  it('is closed after an answer with "connection: close", and serves no further request', async () => {
    const { port, served, opened, hasRead } = await startServer(() => {})
    const client = await openServed(port, served)
    client.socket.write(chat('b').slice(0, 20))
    await hasRead(chat('a').length + 20)
    served[0]!.response.send(503, ['content-length', '2', 'connection', 'close'], 'no')
    client.socket.write(chat('b').slice(20) + chat('c'))
    await vi.waitFor(() => expect(client.isEnded).toBe(true), WAIT_OPTIONS)
    client.socket.end()
    await vi.waitFor(() => expect(opened[0]!.destroyed).toBe(true), WAIT_OPTIONS)
    expect(served).toHaveLength(1)
    expect(client.read).toMatch(/^HTTP\/1\.1 503 Service Unavailable\r\n/)
    expect(client.read.match(/connection:/gi)).toHaveLength(1)
  })

  it.each<[how: string, leave: (socket: Socket) => void]>([
    ['closes', socket => socket.destroy()],
    ['resets', socket => socket.resetAndDestroy()],
    ['ends its side', socket => socket.end()],
  ])('closes the response when the client %s, and ignores a later answer', async (_how, leave) => {
    const { port, served } = await startServer(() => {})
    const client = await openServed(port, served)
    const { response } = served[0]!
    const onClose = vi.fn()
    response.onceClosed(onClose)
    leave(client.socket)
    await vi.waitFor(() => expect(onClose).toHaveBeenCalledTimes(1), WAIT_OPTIONS)
    expect(onClose).toHaveBeenCalledWith(false)
    expect(response.isClosed).toBe(true)
    reply(response, 'late')
    expect(onClose).toHaveBeenCalledTimes(1)
  })

  it('is closed after the keep-alive time when it is idle, but not while it waits for an answer', async () => {
    const { port, watch, served, opened } = await startServer(serving => {
      if (served.length === 1) echo(serving)
    })
    const idle = openClient(port)
    idle.socket.write(chat('a'))
    await vi.waitFor(() => expect(bodiesOf(idle.read)).toEqual(['a']), WAIT_OPTIONS)
    const waiting = openClient(port)
    waiting.socket.write(chat('b'))
    await vi.waitFor(() => expect(served).toHaveLength(2), WAIT_OPTIONS)

    watch.check(performance.now() + keepAliveMs - 5_000)
    expect(opened.map(socket => socket.destroyed)).toEqual([false, false])
    watch.check(performance.now() + keepAliveMs)
    expect(opened.map(socket => socket.destroyed)).toEqual([true, false])
    echo(served[1]!)
    await vi.waitFor(() => expect(bodiesOf(waiting.read)).toEqual(['b']), WAIT_OPTIONS)
  })

  it('is not closed as idle when its next request came while the process was suspended', async () => {
    onTestFinished(() => void vi.useRealTimers())
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
    const { port } = await startServer()
    const client = openClient(port)
    client.socket.write(chat('a'))
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['a']), WAIT_OPTIONS)

    client.socket.write(chat('b'))
    vi.advanceTimersByTime(keepAliveMs + 5_000)
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['a', 'b']), WAIT_OPTIONS)
  })

  it('is not idle while the client reads an answer', async () => {
    const { port, watch, opened } = await startServer(replyLong)
    const client = await openUnread(port, opened)
    watch.check(performance.now() + keepAliveMs)
    expect(opened[0]!.destroyed).toBe(false)
    client.socket.resume()
    await vi.waitFor(() => expect(client.read.length).toBeGreaterThan(20_000_000), WAIT_OPTIONS)
  })

  it('is closed when its client reads nothing of an answer for too long, but not when the client is only slow', async () => {
    const { port, watch, opened } = await startServer(({ response }) => reply(response, 'x'.repeat(60_000_000)))
    const client = await openUnread(port, opened)
    let nowMs = performance.now()
    const checkAfter = (ms: number) => {
      nowMs += ms
      watch.check(nowMs)
      return opened[0]!.destroyed
    }
    expect(checkAfter(0)).toBe(false)
    expect(checkAfter(slowReaderMs - 1)).toBe(false)
    // More than the kernels of both sides buffer.
    const read = new Promise<void>(resolve => {
      client.socket.on('data', () => {
        if (client.read.length < 20_000_000) return
        client.socket.pause()
        resolve()
      })
    })
    client.socket.resume()
    await read
    expect(checkAfter(slowReaderMs)).toBe(false)
    // Sending a byte is not reading. The kernels take a little more before they are full.
    client.socket.write('P')
    await vi.waitFor(() => expect(checkAfter(slowReaderMs)).toBe(true), WAIT_OPTIONS)
  })

  it('is closed after ten seconds when its client sends nothing', async () => {
    const { port, watch, opened, nodeListener } = await startServer()
    const client = openClient(port)
    await vi.waitFor(() => expect(opened).toHaveLength(1), WAIT_OPTIONS)
    watch.check(performance.now() + 9_000)
    expect(opened[0]!.destroyed).toBe(false)
    watch.check(performance.now() + 10_000)
    expect(opened[0]!.destroyed).toBe(true)
    await vi.waitFor(() => expect(client.isEnded).toBe(true), WAIT_OPTIONS)
    expect(nodeListener).not.toHaveBeenCalled()
  })

  it.each(['P', 'POST /chat HTTP/1.1\r\nHost: h\r\n', chat('body').slice(0, -1)])(
    'is handed to node:http, and timed out there, when %j is all that comes',
    async part => {
      const { server, port, watch, opened, hasRead } = await startServer()
      server.headersTimeout = server.requestTimeout = 1
      const client = openClient(port)
      client.socket.write(part)
      await vi.waitFor(() => expect(opened).toHaveLength(1), WAIT_OPTIONS)
      await hasRead(part.length)
      watch.check(performance.now() + 1_000)
      await vi.waitFor(() => expect(client.read).toMatch(/^HTTP\/1\.1 408 /), WAIT_OPTIONS)
    },
  )

  it('may take a second for a request from its first byte, however long it was idle before', async () => {
    const { port, watch, served, nodeListener, hasRead } = await startServer()
    const now = vi.spyOn(performance, 'now')
    onTestFinished(() => now.mockRestore())
    const client = openClient(port)
    client.socket.write(chat('a'))
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['a']), WAIT_OPTIONS)
    const answeredMs = performance.now()
    now.mockImplementation(() => answeredMs + 10_000)
    client.socket.write(chat('b').slice(0, 20))
    await hasRead(chat('a').length + 20)
    watch.check(answeredMs + 10_999)
    client.socket.write(chat('b').slice(20))
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['a', 'b']), WAIT_OPTIONS)
    expect(served).toHaveLength(2)
    expect(nodeListener).not.toHaveBeenCalled()
  })

  it('gets the answer of node:http when it ends in the middle of a request', async () => {
    const { port } = await startServer()
    expect(await exchange(port, chat('body').slice(0, -1))).toMatch(/^HTTP\/1\.1 400 /)
  })
})

describe('a closing server', () => {
  it('closes idle connections immediately and the others after their answers', async () => {
    const { server, port, watch, served, opened } = await startServer(serving => {
      if (served.length === 1) echo(serving)
    })
    const [idle, waiting] = [openClient(port), openClient(port)]
    idle.socket.write(chat('a'))
    await vi.waitFor(() => expect(bodiesOf(idle.read)).toEqual(['a']), WAIT_OPTIONS)
    waiting.socket.write(chat('b'))
    await vi.waitFor(() => expect(served).toHaveLength(2), WAIT_OPTIONS)

    const closed = once(server, 'close')
    server.close()
    watch.close()
    await vi.waitFor(() => expect(idle.isEnded).toBe(true), WAIT_OPTIONS)
    expect(waiting.isEnded).toBe(false)
    echo(served[1]!)
    await vi.waitFor(() => expect(waiting.isEnded).toBe(true), WAIT_OPTIONS)
    expect(bodiesOf(waiting.read)).toEqual(['b'])
    // The client keeps its side open.
    await vi.waitFor(() => expect(opened[1]!.writableFinished).toBe(true), WAIT_OPTIONS)
    watch.check(performance.now())
    watch.check(performance.now() + 2_000)
    await closed
  })

  it.each<[what: string, request: string, serve: (serving: Serving) => void]>([
    ['a client that does not read', chat('a'), replyLong],
    ['an answer that never comes', chat('a'), () => {}],
    ['half a request', chat('a').slice(0, -1), () => {}],
  ])('waits five seconds for %s', async (_what, request, serve) => {
    const { server, port, watch, nodeListener, hasRead, opened } = await startServer(serve)
    nodeListener.mockImplementation(() => {})
    const client = openClient(port)
    client.socket.pause()
    client.socket.write(request)
    await vi.waitFor(() => expect(opened).toHaveLength(1), WAIT_OPTIONS)
    await hasRead(request.length)
    const closed = once(server, 'close')
    server.close()
    watch.close()
    const closedMs = performance.now()
    watch.check(closedMs)
    expect(opened[0]!.destroyed).toBe(false)
    watch.check(closedMs + 5_000)
    expect(opened[0]!.destroyed).toBe(true)
    await closed
  })

  it('still serves a request that has begun to arrive', async () => {
    const { port, watch, nodeListener, hasRead } = await startServer()
    const client = openClient(port)
    client.socket.write(chat('a'))
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['a']), WAIT_OPTIONS)
    client.socket.write(chat('b').slice(0, 20))
    await hasRead(chat('a').length + 20)
    watch.close()
    client.socket.write(chat('b').slice(20))
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['a', 'b']), WAIT_OPTIONS)
    expect(nodeListener).toHaveBeenCalled()
  })

  it('leaves new connections to node:http', async () => {
    const { port, watch, served, nodeListener } = await startServer()
    watch.close()
    const client = openClient(port)
    client.socket.write(chat('a'))
    await vi.waitFor(() => expect(bodiesOf(client.read)).toEqual(['a']), WAIT_OPTIONS)
    expect(nodeListener).toHaveBeenCalledTimes(1)
    expect(served).toEqual([])
  })
})

describe('a response', () => {
  it('has the headers that node:http would send', async () => {
    const plain = await startServer()
    const node = createServer(options, echoByNode)
    const answers = await Promise.all([plain.port, await listenForTest(node)].map(port => exchange(port, chat('a'))))
    expect(plain.served).toHaveLength(1)
    expect(answers[0]).toBe(answers[1])
    expect(answers[0]).toMatch(/\r\nKeep-Alive: timeout=75\r\n/)
  })

  it('may be a stream in chunks', async () => {
    const { port } = await startServer(async ({ response }) => {
      const { signal } = new AbortController()
      const events = new EventStream(response, { pingMs: 10_000, ping: ': ping\n\n', headers: () => [], signal })
      await events.open({
        modelId: 'm',
        provider: 'local',
        hosterId: null,
        maxTokens: null,
        droppedFields: [],
        changedFields: [],
      })
      events.write('data: é\n\n')
      events.write('data: 2\n\n')
      events.end()
      events.stopPings()
    })
    const response = await fetch(`http://127.0.0.1:${port}/chat`, { method: 'POST', body: 'a' })
    expect(await response.text()).toBe('data: é\n\ndata: 2\n\n')
  })

  it.each(['a\r\nb: c', 'a\nb', 'a\0', 'é', '\x7f'])('rejects the header value %j', async value => {
    const { port, served } = await startServer(() => {})
    openClient(port).socket.write(chat('a'))
    await vi.waitFor(() => expect(served).toHaveLength(1), WAIT_OPTIONS)
    const { response } = served[0]!
    expect(() => response.send(200, ['x', value], '')).toThrow(TypeError)
    expect(() => response.startStream(['x', value])).toThrow(TypeError)
    expect(response.statusSent).toBeNull()
  })
})

it('answers mutated requests as node:http does', async () => {
  const plain = await startServer()
  const node = createServer(options, echoByNode)
  const nodePort = await listenForTest(node)
  const random = seededRandom(1)
  let refusedEarlier = 0
  for (let batch = 0; batch < 40; batch++) {
    await Promise.all(
      Array.from({ length: 25 }, async () => {
        const bytes = mutated(random)
        const [plainAnswer, nodeAnswer] = await Promise.all([exchange(plain.port, bytes), exchange(nodePort, bytes)])
        // Bytes that are handed over reach node:http in one turn. When a later request is at fault, node:http can refuse it before an
        // earlier one is answered; then only the 400 leaves.
        const isRefusedEarlier =
          plainAnswer !== nodeAnswer && nodeAnswer.startsWith('HTTP/1.1 200 ') && nodeAnswer.endsWith(plainAnswer)
        if (isRefusedEarlier && plainAnswer.startsWith('HTTP/1.1 400 ')) refusedEarlier++
        else expect({ bytes, answer: plainAnswer }).toEqual({ bytes, answer: nodeAnswer })
      }),
    )
  }
  // Both ways were compared often enough.
  expect(plain.served.length).toBeGreaterThan(200)
  expect(plain.nodeListener.mock.calls.length).toBeGreaterThan(200)
  expect(refusedEarlier).toBeLessThan(100)
})

const fields = [
  ...['Host: h\r\n', 'content-length: 4\r\n', 'Connection: keep-alive\r\n', 'Authorization: Bearer k\r\n'],
  ...['Transfer-Encoding: chunked\r\n', 'Expect: 100-continue\r\n', 'Upgrade: x\r\n', 'Connection: close\r\n'],
  ...[
    ' folded\r\n',
    'a b: c\r\n',
    ': x\r\n',
    'Content-Length: 5\r\n',
    'x:\r\n',
    'Proxy-Connection: close\r\n',
    'x\r\n',
  ],
]
const oddBytes = [
  '\r',
  '\n',
  '\r\n',
  '\r\n\r\n',
  ' ',
  '\t',
  ':',
  '\0',
  '\x7f',
  '\x80',
  '\xff',
  'a',
  '0',
  '4',
  '"',
  ',',
  '/',
]

/** Returns a plain request with up to three mutations. */
function mutated(random: () => number): string {
  const pick = <Item>(items: readonly Item[]): Item => items[Math.floor(random() * items.length)]!
  let bytes = chat('{"a"', 'X-Trace: 1\r\nAuthorization: Bearer k\r\n')
  for (let left = Math.floor(random() * 4); left > 0; left--) {
    const at = Math.floor(random() * (bytes.length + 1))
    const lineAt = bytes.indexOf('\r\n', at) + 2
    switch (pick(['insert', 'replace', 'delete', 'field', 'again', 'case'])) {
      case 'insert':
        bytes = bytes.slice(0, at) + pick(oddBytes) + bytes.slice(at)
        break
      case 'replace':
        bytes = bytes.slice(0, at) + pick(oddBytes) + bytes.slice(at + 1)
        break
      case 'delete':
        bytes = bytes.slice(0, at) + bytes.slice(at + 1)
        break
      case 'field':
        bytes = bytes.slice(0, lineAt) + pick(fields) + bytes.slice(lineAt)
        break
      case 'again':
        bytes += bytes
        break
      case 'case':
        bytes = bytes.slice(0, at) + bytes.slice(at, at + 8).toUpperCase() + bytes.slice(at + 8)
        break
    }
  }
  return bytes
}

/** Sends the bytes, ends the client's side, and returns all that the server answers, without dates. */
async function exchange(port: number, bytes: string): Promise<string> {
  const client = openClient(port)
  client.socket.end(bytes, 'latin1')
  await once(client.socket, 'close')
  return client.read.replace(/\r\nDate: [^\r]*/g, '')
}
