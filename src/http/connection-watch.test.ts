import { once } from 'node:events'
import { createServer, type RequestListener, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { describe, expect, it, vi } from 'vitest'
import { listenForTest, openClient, type RawClient } from '../../test/harness/raw-client.ts'
import { WAIT_OPTIONS } from '../../test/harness/timeouts.ts'
import { noteRequests } from './connection-bound.ts'
import { ConnectionWatch } from './connection-watch.ts'

const slowReaderMs = 30_000
const GET = 'GET / HTTP/1.1\r\nHost: h\r\n\r\n'

/** Starts a watched node:http server without a plain server. */
async function startServer(
  listener: RequestListener = (_request, response) => response.end('ok'),
  connectionsMax = 100,
) {
  const server = createServer({ keepAliveTimeout: 75_000, connectionsCheckingInterval: 20 }, noteRequests(listener))
  const opened: Socket[] = []
  server.on('connection', socket => opened.push(socket))
  const watch = new ConnectionWatch(server, { slowReaderMs, servers: [], connectionsMax })
  /** Waits until the server has read this many bytes of the connection that was opened at that position. */
  const hasRead = (bytes: number, position = 0) =>
    vi.waitFor(() => expect(opened[position]?.bytesRead ?? 0).toBeGreaterThanOrEqual(bytes), WAIT_OPTIONS)
  return { server, watch, opened, hasRead, port: await listenForTest(server) }
}

/** Opens a client that does not read its answer. */
async function openUnread(port: number, opened: readonly Socket[]): Promise<RawClient> {
  const client = openClient(port)
  client.socket.pause()
  client.socket.write(GET)
  await vi.waitFor(() => expect(opened[0]?.writableNeedDrain).toBe(true), WAIT_OPTIONS)
  return client
}

/** Reads about 20 MB, more than the kernels of both sides keep. */
function readSome(client: RawClient): Promise<void> {
  return new Promise(resolve => {
    client.socket.on('data', () => {
      if (client.read.length < 20_000_000) return
      client.socket.pause()
      resolve()
    })
    client.socket.resume()
  })
}

const answerLong: RequestListener = (_request, response) => void response.end('x'.repeat(60_000_000))

describe('a connection', () => {
  it('is closed when its client reads nothing of an answer for too long, but not when the client is only slow', async () => {
    const { port, watch, opened } = await startServer(answerLong)
    const client = await openUnread(port, opened)
    let nowMs = performance.now()
    const checkAfter = (ms: number) => {
      nowMs += ms
      watch.check(nowMs)
      return opened[0]!.destroyed
    }
    expect(checkAfter(0)).toBe(false)
    expect(checkAfter(slowReaderMs - 1)).toBe(false)
    await readSome(client)
    expect(checkAfter(slowReaderMs)).toBe(false)
    // Sending a byte is not reading. The kernels take a little more before they are full.
    client.socket.write('P')
    await vi.waitFor(() => expect(checkAfter(slowReaderMs)).toBe(true), WAIT_OPTIONS)
  })

  it("is closed without Node's private counters too, when no write ends for too long", async () => {
    const { port, watch, opened } = await startServer(answerLong)
    await openUnread(port, opened)
    const { _handle: handle } = opened[0] as Socket & { readonly _handle: object }
    Object.defineProperty(handle, 'writeQueueSize', { value: undefined })
    const nowMs = Math.ceil(performance.now())
    watch.check(nowMs)
    watch.check(nowMs + slowReaderMs - 1)
    expect(opened[0]!.destroyed).toBe(false)
    watch.check(nowMs + slowReaderMs)
    expect(opened[0]!.destroyed).toBe(true)
  })

  it('that was refused is closed after two seconds if the client does not end its side', async () => {
    const { port, watch, opened } = await startServer()
    const client = openClient(port)
    client.socket.write('nonsense\r\n\r\n')
    await vi.waitFor(() => expect(client.isEnded).toBe(true), WAIT_OPTIONS)
    await vi.waitFor(() => expect(opened[0]!.writableFinished).toBe(true), WAIT_OPTIONS)
    watch.check(performance.now())
    expect(opened[0]!.destroyed).toBe(false)
    watch.check(performance.now() + 2_000)
    expect(opened[0]!.destroyed).toBe(true)
  })
})

describe('at the limit, a new connection', () => {
  async function openAll(port: number, opened: readonly Socket[], count: number): Promise<RawClient[]> {
    const clients: RawClient[] = []
    for (let n = 0; n < count; n++) {
      clients.push(openClient(port))
      await vi.waitFor(() => expect(opened).toHaveLength(n + 1), WAIT_OPTIONS)
    }
    return clients
  }
  const destroyed = (opened: readonly Socket[]) => opened.map(socket => socket.destroyed)
  const sendRequest = async (client: RawClient) => {
    client.socket.write(GET)
    await vi.waitFor(() => expect(client.read).toMatch(/ok$/), WAIT_OPTIONS)
  }

  it('replaces the oldest one that has sent no request', async () => {
    const { port, opened } = await startServer(undefined, 4)
    const clients = await openAll(port, opened, 4)
    await sendRequest(clients[0]!)
    // Half a head is no request.
    clients[1]!.socket.write('GET / HTTP/1.1\r\n')
    clients.push(openClient(port))
    await vi.waitFor(() => expect(destroyed(opened)).toEqual([false, true, false, false, false]), WAIT_OPTIONS)
  })

  it('replaces the oldest idle one if all have sent requests, and none that waits for its answer', async () => {
    const waiting: ServerResponse[] = []
    const { port, opened } = await startServer((request, response) => {
      if (request.url === '/wait') waiting.push(response)
      else response.end('ok')
    }, 3)
    const clients = await openAll(port, opened, 3)
    clients[0]!.socket.write('GET /wait HTTP/1.1\r\nHost: h\r\n\r\n')
    await sendRequest(clients[1]!)
    await sendRequest(clients[2]!)
    await vi.waitFor(() => expect(waiting).toHaveLength(1), WAIT_OPTIONS)
    const fourth = openClient(port)
    await vi.waitFor(() => expect(destroyed(opened)).toEqual([false, true, false, false]), WAIT_OPTIONS)
    await sendRequest(fourth)
    waiting[0]!.end('ok')
    await vi.waitFor(() => expect(clients[0]!.read).toMatch(/ok$/), WAIT_OPTIONS)
  })

  it('is closed itself if every connection waits for an answer', async () => {
    const waiting: ServerResponse[] = []
    const { port, opened } = await startServer((_request, response) => void waiting.push(response), 3)
    const clients = await openAll(port, opened, 3)
    for (const client of clients) client.socket.write(GET)
    await vi.waitFor(() => expect(waiting).toHaveLength(3), WAIT_OPTIONS)
    const fourth = openClient(port)
    await vi.waitFor(() => expect(fourth.isEnded).toBe(true), WAIT_OPTIONS)
    expect(destroyed(opened)).toEqual([false, false, false, true])
    waiting[0]!.end('ok')
    await vi.waitFor(() => expect(clients[0]!.read).toMatch(/ok$/), WAIT_OPTIONS)
    openClient(port)
    await vi.waitFor(() => expect(destroyed(opened)).toEqual([true, false, false, true, false]), WAIT_OPTIONS)
  })
})

describe('a closing server', () => {
  it.each<[what: string, request: string, listener: RequestListener]>([
    ['an answer that never comes', GET, () => {}],
    ['half a request', 'GET / HTTP/1.1\r\n', () => {}],
  ])('waits five seconds for %s', async (_what, request, listener) => {
    const { server, port, watch, hasRead, opened } = await startServer(listener)
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

  it('closes a connection soon after the rest of a request that was answered before', async () => {
    const { server, port, watch, hasRead, opened } = await startServer((_request, response) =>
      response.end('too large'),
    )
    const request = 'POST /large HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345'
    const clients = [openClient(port), openClient(port)]
    for (const client of clients) {
      client.socket.write(request)
      await vi.waitFor(() => expect(client.read).toContain('too large'), WAIT_OPTIONS)
    }
    server.close()
    watch.close()
    clients[0]!.socket.write('67890')
    await hasRead(request.length + 5)
    await vi.waitFor(() => expect(opened[0]!.destroyed).toBe(true), WAIT_OPTIONS)
    // The rest of the other request may still come.
    expect(opened[1]!.destroyed).toBe(false)
  })
})
