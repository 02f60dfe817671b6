import { createServer, type RequestListener } from 'node:http'
import type { Socket } from 'node:net'
import { expect, test, vi } from 'vitest'
import { listenForTest, openClient } from '../../test/harness/raw-client.ts'
import { WAIT_OPTIONS } from '../../test/harness/timeouts.ts'
import { InputTurns } from './input-turns.ts'
import { refuseUnparsable } from './refuse-unparsable.ts'

/** A server. The test begins its turns. */
async function startServer(listener: RequestListener) {
  let begin: (() => void) | undefined
  const turns = new InputTurns(work => {
    begin = work
  })
  const sockets: Socket[] = []
  const server = turns.attach(createServer(turns.noteRequests(listener)))
  server.on('connection', socket => sockets.push(socket))
  return {
    port: await listenForTest(server),
    sockets,
    server,
    beginTurn() {
      const work = begin
      begin = undefined
      work?.()
    },
  }
}

/** A request of 2 KiB, as large as a slice. */
const request = (target: string) => {
  const head = `GET ${target} HTTP/1.1\r\nhost: a\r\nx-fill: `
  return `${head}${'x'.repeat(2_048 - head.length - 4)}\r\n\r\n`
}
const pipelined = (client: string) => Array.from({ length: 12 }, (_, at) => request(`/${client}${at}`)).join('')

test('serves a few pipelined requests of a connection in each turn, and another connection in between', async () => {
  const served: string[] = []
  const { port, sockets, beginTurn } = await startServer((request, response) => {
    served.push(request.url!)
    response.end()
  })
  openClient(port).socket.write(pipelined('a'))
  const expected = ['/a0', '/a1', '/a2', '/a3']
  await vi.waitFor(() => expect(served).toEqual(expected), WAIT_OPTIONS)
  expect(sockets[0]!.isPaused()).toBe(true)
  openClient(port).socket.write(request('/b0'))
  expected.push('/b0')
  await vi.waitFor(() => expect(served).toEqual(expected), WAIT_OPTIONS)
  beginTurn()
  expect(served).toEqual([...expected, '/a4', '/a5', '/a6', '/a7'])
  beginTurn()
  expect(served.slice(-4)).toEqual(['/a8', '/a9', '/a10', '/a11'])
  await vi.waitFor(() => expect(sockets[0]!.isPaused()).toBe(false), WAIT_OPTIONS)
})

test('reads a limited part of a large body in each turn', async () => {
  const bodyBytes = 6 * 1024 * 1024
  let received = 0
  const { port, sockets, beginTurn } = await startServer((request, response) => {
    request.on('data', (piece: Buffer) => {
      received += piece.length
    })
    request.on('end', () => response.end('whole'))
  })
  const client = openClient(port)
  client.socket.write(`POST / HTTP/1.1\r\nhost: a\r\ncontent-length: ${bodyBytes}\r\n\r\n`)
  client.socket.write(Buffer.alloc(bodyBytes))
  await vi.waitFor(() => expect(received > 0 && sockets[0]!.isPaused()).toBe(true), WAIT_OPTIONS)
  expect(received).toBeLessThan(bodyBytes)
  await vi.waitFor(() => {
    beginTurn()
    expect(client.read).toContain('whole')
  }, WAIT_OPTIONS)
  expect(received).toBe(bodyBytes)
})

test('answers all pipelined requests of a client that reads late', async () => {
  // More than the buffers of the system take.
  const body = Buffer.alloc(4_000_000, 'x')
  let served = 0
  const { port, sockets, beginTurn } = await startServer((_request, response) => {
    served++
    response.end(body)
  })
  const client = openClient(port)
  client.socket.pause()
  client.socket.write(pipelined('a'))
  await vi.waitFor(() => expect(served > 0 && sockets[0]!.isPaused()).toBe(true), WAIT_OPTIONS)
  const servedAtPause = served
  // node:http has paused the connection itself: no turn may go on without it.
  beginTurn()
  expect(served).toBe(servedAtPause)
  client.socket.resume()
  await vi.waitFor(() => {
    beginTurn()
    expect(client.read.length).toBeGreaterThan(12 * body.length)
  }, WAIT_OPTIONS)
  expect(client.read.match(/HTTP\/1\.1 200/g)).toHaveLength(12)
})

test('reads on after a refusal, so that a client that still sends gets no reset', async () => {
  const { port, sockets, server, beginTurn } = await startServer(() => {})
  server.removeAllListeners('clientError').on('clientError', refuseUnparsable)
  const bytes = Buffer.alloc(1_000_000, 'no HTTP ')
  const client = openClient(port)
  client.socket.write(bytes)
  await vi.waitFor(() => {
    beginTurn()
    expect(sockets[0]?.bytesRead).toBe(bytes.length)
  }, WAIT_OPTIONS)
  expect(client.read).toContain('400 Refused')
})
