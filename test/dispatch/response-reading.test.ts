import { once } from 'node:events'
import { request as requestByNode } from 'node:http'
import { type AddressInfo, createServer, type Server } from 'node:net'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { uncounted } from '../../src/base/runtime/counted-memory.ts'
import { UpstreamClient } from '../../src/wire/upstreams/upstream-client.ts'
import { ann, limitsOf, offerAt } from './dispatching.ts'

/** A response that was accepted as complete. */
interface Reading {
  readonly status: number
  readonly body: Buffer
}

interface Response {
  /** Latin-1: one character per byte. */
  readonly text: string
  /** Positions where its bytes are split into writes, in thousandths of its length. */
  readonly cuts: readonly number[]
}

// Answers each request with `response` and closes the connection.
let response: Response
let server: Server
let baseUrl: string
beforeAll(async () => {
  server = createServer(socket => {
    socket.setNoDelay(true)
    socket.on('error', () => {})
    socket.once('data', async () => {
      const bytes = Buffer.from(response.text, 'latin1')
      const ends = [...response.cuts.map(cut => placeIn(bytes, cut)).sort((a, b) => a - b), bytes.length]
      for (const [index, end] of ends.entries()) {
        socket.write(bytes.subarray(ends[index - 1] ?? 0, end))
        await new Promise(setImmediate)
      }
      socket.end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
})
afterAll(() => server.close())

async function readByClient(): Promise<Reading | null> {
  const upstream = new UpstreamClient({ version: '0.0.0-test' })
  const { endpoint } = offerAt(baseUrl)
  const { signal } = new AbortController()
  const pieces: Buffer[] = []
  try {
    const exchange = await upstream.send({
      endpoint,
      customerId: ann,
      path: '/chat/completions',
      body: '{}',
      stream: true,
      limits: limitsOf(endpoint, true),
      bytesMax: 16 * 1024 * 1024,
      memory: uncounted,
      signal,
    })
    await exchange.read(piece => void pieces.push(Buffer.from(piece)))
    return { status: exchange.head.status, body: Buffer.concat(pieces) }
  } catch {
    return null
  } finally {
    upstream.close()
  }
}

async function readByNode(): Promise<Reading | null> {
  const request = requestByNode(`${baseUrl}/chat/completions`, {
    method: 'POST',
    agent: false,
    insecureHTTPParser: false,
  })
  let reading: Reading | null = null
  request.on('error', () => {})
  request.on('response', incoming => {
    const pieces: Buffer[] = []
    incoming.on('error', () => {})
    incoming.on('data', piece => pieces.push(piece))
    incoming.on('end', () => {
      if (incoming.complete) reading = { status: incoming.statusCode ?? 0, body: Buffer.concat(pieces) }
    })
  })
  request.end('{}')
  await new Promise(resolve => request.once('close', resolve))
  return reading
}

const ok = 'HTTP/1.1 200 OK\r\n'
const valid = [
  `${ok}Content-Type: text/plain\r\nContent-Length: 12\r\n\r\nhello, world`,
  `${ok}content-length: 0\r\nkeep-alive: timeout=5\r\n\r\n`,
  `${ok}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n7\r\n, world\r\n0\r\n\r\n`,
  `${ok}Transfer-Encoding: chunked\r\nServer: x\r\n\r\n00c;a=b;c="d e"\r\nhello, world\r\n0\r\nX-Trailer: y\r\n\r\n`,
  `${ok}connection: close\r\n\r\nhello, world`,
  `${ok}connection: close\r\ntransfer-encoding: chunked\r\n\r\nC\r\nhello, world\r\n0\r\n\r\n`,
  `HTTP/1.1 100 Continue\r\n\r\n${ok}content-length: 5\r\n\r\nhello`,
  `HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n${ok}transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n`,
  'HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 5\r\n\r\nhello',
  'HTTP/1.0 200 OK\r\n\r\nhello',
]

/** Texts that make HTTP parsers disagree when they stand in the wrong place. */
const oddities = [
  ...['\r\n', '\n', '\r', '\r\n\r\n', ' ', '\t', '\0', '\x0b', '\x7f', '\x85', '\xa0', '\xff'],
  ...[':', ';', ',', '"', '=', '-', '+', '_', '.', '0', '00', '1', '5', 'a', 'x', '0x'],
  ...['ffffffffffffffff', '4294967296', '0\r\n\r\n', '5;x\r\n', '5 \r\n', '3\r\nabc\r\n', ';x="'],
  ...['content-length: 3\r\n', 'Content-Length: 5\r\n', 'content-length : 3\r\n', 'content-length: 5, 5\r\n'],
  ...['transfer-encoding: chunked\r\n', 'transfer-encoding: identity\r\n', 'transfer-encoding:\tgzip, chunked\r\n'],
  ...['connection: close\r\n', 'connection: upgrade\r\nupgrade: x\r\n', 'x: y\r\n z\r\n', 'x\r\n', 'x:\r\n', ': x\r\n'],
  ...['HTTP/1.1 100 x\r\n\r\n', `${ok}content-length: 1\r\n\r\nx`],
]

const thousandths = fc.noBias(fc.nat(1_000))
const placeIn = ({ length }: { length: number }, part: number) => Math.floor((part / 1_000) * length)

interface Change {
  readonly at: number
  /** Moves the change to the start of its line. */
  readonly atLine: boolean
  readonly removed: number | 'line'
  readonly inserted: string
}

const change: fc.Arbitrary<Change> = fc.record({
  at: thousandths,
  atLine: fc.boolean(),
  removed: fc.constantFrom(0, 0, 0, 1, 2, 'line' as const),
  inserted: fc.oneof(fc.constantFrom('', ...oddities), fc.string({ unit: 'binary-ascii', maxLength: 2 })),
})

function changed(text: string, { at, atLine, removed, inserted }: Change): string {
  const place = placeIn(text, at)
  const lineBefore = text.lastIndexOf('\r\n', place)
  const start = !atLine ? place : lineBefore === -1 ? 0 : lineBefore + 2
  const lineEnd = text.indexOf('\r\n', start)
  const end = removed !== 'line' ? start + removed : lineEnd === -1 ? text.length : lineEnd + 2
  return text.slice(0, start) + inserted + text.slice(end)
}

const responses = fc
  .record({
    text: fc.constantFrom(...valid),
    changes: fc.oneof(fc.tuple(change), fc.tuple(change, change), fc.tuple(change, change, change)),
    cuts: fc.array(thousandths, { maxLength: 2 }),
  })
  .map(({ text, changes, cuts }): Response => ({ text: [...changes].reduce(changed, text), cuts }))

describe('a response that the client accepts, Node reads the same', () => {
  it.each(valid)('if it is valid: %j', async text => {
    response = { text, cuts: [] }
    const reading = await readByNode()
    expect(reading).toMatchObject({ status: 200 })
    expect(await readByClient()).toEqual(reading)
  })

  it('with up to three changes', async () => {
    let accepted = 0
    await fc.assert(
      fc.asyncProperty(responses, async sent => {
        response = sent
        const [ours, nodes] = await Promise.all([readByClient(), readByNode()])
        // The client may reject more.
        if (ours?.status !== 200) return
        accepted++
        expect(nodes).toEqual(ours)
      }),
      { seed: 9112, numRuns: 1_000 },
    )
    expect(accepted).toBeGreaterThan(100)
  })
})
