import { once } from 'node:events'
import { get, type IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { deflateRawSync } from 'node:zlib'
import { describe, expect, test, vi } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import { revokeKey } from '../../src/identity/auth/keys.ts'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { openClient } from '../harness/raw-client.ts'
import { openResponses, type ResponseSocket, refusedHandshake } from '../harness/response-socket.ts'
import { answer, neverEnding, sse, streamEvents } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const BODY_LIMIT_BYTES = 262_144
const yaml = `server: { body_limit_bytes: ${BODY_LIMIT_BYTES}, max_connections: 128 }`
const upstream = useUpstream()
const gateway = useTestApp(() => ({ yaml, offers: [testOffer(upstream.baseUrl)], timeouts: { slowReaderMs: 300 } }))

const hello = { model: 'test-model', input: 'Hello' }
const rawSocketOf = ({ socket }: ResponseSocket) => (socket as unknown as { readonly _socket: Socket })._socket

async function open(app: TestApp = gateway, options: Parameters<TestApp['customer']>[0] = {}) {
  const customer = await app.customer(options)
  return { customer, socket: await openResponses(app, customer) }
}

/** The head of a frame of a client with a mask that changes nothing, and as much of its payload as is given. */
function frame(first: number, payload: Buffer, length = payload.length): Buffer {
  const head = Buffer.alloc(14)
  head[0] = first
  head[1] = 0x80 | 127
  head.writeBigUInt64BE(BigInt(length), 2)
  return Buffer.concat([head, payload])
}

const TEXT = 0x81
const COMPRESSED_TEXT = 0xc1

describe('a handshake is refused', () => {
  const stranger = { key: `sk-sy-${'0'.repeat(38)}` }

  test('without a valid key, from a foreign name, or with headers that no request may have', async () => {
    const customer = await gateway.customer()
    expect(await refusedHandshake(gateway, stranger)).toMatchObject({ status: 401, code: 'invalid_api_key' })
    const refusal = (headers: Record<string, string>) => refusedHandshake(gateway, customer, { headers })
    expect(await refusal({ host: 'evil.example' })).toMatchObject({ status: 400, code: 'invalid_header' })
    expect(await refusal({ 'idempotency-key': 'once' })).toMatchObject({ status: 400, code: 'invalid_header' })
    expect(await refusal({ 'x-switchyard-teir': 'cheapest' })).toMatchObject({ status: 400, code: 'invalid_header' })
  })

  const plain = async (path: string, key: string, headers = {}) => {
    const request = get(`${gateway.url}${path}`, { headers: { authorization: `Bearer ${key}`, ...headers } })
    const [response] = (await once(request, 'response')) as [IncomingMessage]
    const body = JSON.parse(Buffer.concat(await response.toArray()).toString())
    return { status: response.statusCode, headers: response.headers, code: body.error.code }
  }

  test('with 426 without an upgrade, after the key was checked', async () => {
    const { key } = await gateway.customer()
    const required = { status: 426, code: 'upgrade_required', headers: { upgrade: 'websocket' } }
    expect(await plain('/v1/responses', key)).toMatchObject(required)
    expect(await plain('/v1/responses', key, { connection: 'upgrade', upgrade: 'h2c' })).toMatchObject(required)
    expect(await plain('/v1/responses', stranger.key)).toMatchObject({ status: 401 })
  })

  test('in the form of the gateway also if it is malformed', async () => {
    const { key } = await gateway.customer()
    const upgrade = { connection: 'upgrade', upgrade: 'websocket' }
    for (const headers of [upgrade, { ...upgrade, 'sec-websocket-key': 'AAAAAAAAAAAAAAAAAAAAAA==' }]) {
      expect(await plain('/v1/responses?x=1', key, headers)).toMatchObject({ status: 400, code: 'invalid_header' })
    }
  })

  test('beyond the places of one customer and of the node, where idle ones make room for others', async () => {
    // A node with 128 connections gives WebSockets 32 of them, and one customer 8.
    const sockets: { readonly customer: TestCustomer; readonly sockets: ResponseSocket[] }[] = []
    for (let n = 0; n < 4; n++) {
      const customer = await gateway.customer()
      const own: ResponseSocket[] = []
      for (let m = 0; m < 8; m++) own.push(await openResponses(gateway, customer))
      sockets.push({ customer, sockets: own })
      expect(await refusedHandshake(gateway, customer)).toMatchObject({
        ...{ status: 429, code: 'rate_limit_exceeded' },
        headers: { 'retry-after': '5' },
      })
    }
    const late = await open()
    const closed = await Promise.race(sockets.flatMap(each => each.sockets).map(({ closed }) => closed))
    expect(closed).toBe(1013)
    expect(await late.socket.ask(hello)).toMatchObject({ type: 'response.completed' })
    for (const each of sockets) for (const { socket } of each.sockets) socket.terminate()
  })
})

describe('a message', () => {
  test('above the body limit is refused with 413, and the connection ends', async () => {
    const { socket } = await open()
    socket.send({ type: 'response.create', ...hello, input: 'x'.repeat(BODY_LIMIT_BYTES * 2) })
    expect(await socket.next()).toMatchObject({ type: 'error', status: 413, error: { code: 'request_too_large' } })
    expect(await socket.closed).toBe(1009)
  })

  test('of the same length in frames without end is refused too', async () => {
    const { socket } = await open()
    const raw = rawSocketOf(socket)
    raw.write(frame(0x01, Buffer.alloc(60_000, 'x')))
    for (let n = 0; n < 8; n++) raw.write(frame(0x00, Buffer.alloc(60_000, 'x')))
    expect(await socket.next()).toMatchObject({ status: 413 })
    await socket.closed
  })

  test('just above the limit is refused, and the connection goes on', async () => {
    const { socket } = await open()
    socket.send({ type: 'response.create', ...hello, input: 'x'.repeat(BODY_LIMIT_BYTES) })
    expect(await socket.next()).toMatchObject({ type: 'error', status: 413 })
    expect(await socket.ask(hello)).toMatchObject({ type: 'response.completed' })
  })

  test('that makes a conversation longer than the limit is refused', async () => {
    const { customer, socket } = await open()
    const half = { ...hello, input: 'word '.repeat(BODY_LIMIT_BYTES / 8) }
    const { response } = await socket.ask({ ...half, generate: false })
    expect(await socket.ask({ ...half, previous_response_id: response.id })).toMatchObject({ status: 413 })
    expect(await gateway.usage(customer)).toEqual([])
  })

  test.each([
    ['compressed', COMPRESSED_TEXT, deflateRawSync(Buffer.alloc(100_000_000, ' ')), 1002],
    ['of frames without end', 0x01, Buffer.alloc(0), 1008],
    ['that is no UTF-8', TEXT, Buffer.from([0xff, 0xfe]), 1007],
  ])('%s ends the connection', async (_what, first, payload, code) => {
    const customer = await gateway.customer()
    const socket = await openResponses(gateway, customer, { perMessageDeflate: true })
    expect(socket.socket.extensions).toBe('')
    const raw = rawSocketOf(socket)
    raw.write(frame(first, payload))
    if (code === 1008) raw.write(Buffer.concat(Array(5_000).fill(frame(0x00, Buffer.alloc(0)))))
    expect(await socket.closed).toBe(code)
  })

  test('of bytes is an error event, and ends the connection', async () => {
    const { socket } = await open()
    socket.socket.send(Buffer.from(JSON.stringify({ type: 'response.create', ...hello })))
    expect(await socket.next()).toMatchObject({ type: 'error', status: 400, error: { code: 'invalid_json' } })
    expect(await socket.closed).toBe(1003)
  })

  test('that is invalid again and again is refused like a POST', async () => {
    const { socket } = await open()
    const codes = new Set<string>()
    for (let n = 0; n < 2_000 && !codes.has('rate_limit_exceeded'); n++) {
      socket.socket.send('{')
      codes.add((await socket.next()).error!.code)
    }
    expect([...codes]).toEqual(['invalid_json', 'rate_limit_exceeded'])
  })
})

test('requests that generate nothing are limited like reports', async () => {
  const app = await startTestApp({
    yaml: 'reports: { requests_per_minute: 2 }',
    offers: [testOffer(upstream.baseUrl)],
    clock: { epochMs: () => Date.UTC(2026, 10, 21, 9, 30, 15), monotonicMs: () => performance.now() },
  })
  try {
    const { socket } = await open(app)
    const asked = []
    for (let n = 0; n < 3; n++) asked.push(await socket.ask({ ...hello, generate: false }))
    expect(asked.map(({ status }) => status)).toEqual([undefined, undefined, 429])
    expect(asked[2]!.headers).toMatchObject({ 'retry-after': '45' })
    expect(await socket.ask(hello)).toMatchObject({ type: 'response.completed' })
  } finally {
    await app.close()
  }
})

test('an event that comes with the handshake is served', async () => {
  const { key } = await gateway.customer()
  const { port, host } = new URL(gateway.url)
  const client = openClient(Number(port))
  const head = [
    ...['GET /v1/responses HTTP/1.1', `host: ${host}`, `authorization: Bearer ${key}`],
    ...['connection: upgrade', 'upgrade: websocket', 'sec-websocket-version: 13'],
    'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
  ]
  const event = frame(TEXT, Buffer.from(JSON.stringify({ type: 'response.create', ...hello })))
  client.socket.write(Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), event]))
  await vi.waitFor(() => expect(client.read).toContain('"type":"response.completed"'), WAIT_OPTIONS)
})

test('a flood of pings ends the connection, and single ones are answered', async () => {
  const { socket } = await open()
  socket.socket.ping('x')
  expect(String((await once(socket.socket, 'pong'))[0])).toBe('x')
  for (let n = 0; n < 1_000; n++) socket.socket.ping()
  await socket.closed
})

test('a client that reads nothing is disconnected, and pays for what it was sent', async () => {
  const { customer, socket } = await open()
  upstream.respondWith(neverEnding({ piece: 'more '.repeat(2_000), everyMs: 0 }))
  socket.send({ type: 'response.create', ...hello, max_output_tokens: 8_192 })
  await socket.next()
  socket.socket.pause()
  const [row] = await gateway.settled(customer, 1)
  expect(row!.cost_nanos).toBeGreaterThan(0n)
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n - row!.cost_nanos)
})

test('a key that is revoked while the connection lives gets 401 for the next request, and the connection ends', async () => {
  const { socket, customer } = await open()
  await socket.ask(hello)
  const { pool } = gateway.database
  const { rows } = await pool.query<{ key_id: string }>('SELECT key_id FROM api_key WHERE customer_id = $1', [
    customer.customerId,
  ])
  await transaction(pool, sql => revokeKey(sql, rows[0]!.key_id))
  await gateway.app.noticeChanges()
  expect(await socket.ask(hello)).toMatchObject({ type: 'error', status: 401, error: { code: 'invalid_api_key' } })
  expect(await socket.closed).toBe(1008)
  expect(await gateway.usage(customer)).toHaveLength(1)
})

test('nothing is kept of connections that have ended', async () => {
  const memory = async () => Number(/memory_budget_used_bytes (\d+)/.exec(await gateway.metrics())![1])
  await expect.poll(memory, WAIT_OPTIONS).toBe(0)
  const { socket } = await open()
  await socket.ask({ ...hello, input: 'x'.repeat(50_000), generate: false })
  expect(await memory()).toBeGreaterThan(50_000)
  rawSocketOf(socket).write(frame(TEXT, Buffer.alloc(100_000, ' '), 200_000))
  await expect.poll(memory, WAIT_OPTIONS).toBeGreaterThan(150_000)
  socket.socket.terminate()
  await expect.poll(memory, WAIT_OPTIONS).toBe(0)
})

describe('a connection ends', () => {
  test('after its lifetime, with an error, but not before its response', async () => {
    const app = await startTestApp({ offers: [testOffer(upstream.baseUrl)], timeouts: { responseSocketMs: 1 } })
    try {
      const gate = Promise.withResolvers<void>()
      const events = streamEvents({ text: 'At last.' })
      upstream.respondWith(sse(events, { beforeEvent: index => (index === 2 ? gate.promise : undefined) }))
      const { socket } = await open(app)
      socket.send({ type: 'response.create', ...hello })
      const idle = await open(app)
      const limit = { type: 'error', status: 400, error: { code: 'websocket_connection_limit_reached' } }
      expect(await idle.socket.next()).toMatchObject(limit)
      expect(await idle.socket.closed).toBe(1000)
      // The other connection is as old. It takes no more requests.
      socket.send({ type: 'response.create', ...hello })
      await vi.waitFor(() => expect(socket.received.some(({ type }) => type === 'error')).toBe(true), WAIT_OPTIONS)
      gate.resolve()
      expect(await socket.closed).toBe(1000)
      expect(socket.received.map(({ type }) => type).slice(-2)).toEqual(['response.completed', 'error'])
      expect(socket.received.at(-1)).toMatchObject(limit)
    } finally {
      await app.close()
    }
  })

  test('when the gateway stops: idle ones at once, others after their responses', async () => {
    const app = await startTestApp({ offers: [testOffer(upstream.baseUrl)] })
    try {
      const gate = Promise.withResolvers<void>()
      const events = streamEvents({ text: 'At last.' })
      upstream.respondWith(sse(events, { beforeEvent: index => (index === 2 ? gate.promise : undefined) }))
      const idle = await open(app)
      const { customer, socket } = await open(app)
      socket.send({ type: 'response.create', ...hello })
      await socket.next()
      const stopped = app.stop({ drainMs: 60_000 })
      expect(await idle.socket.closed).toBe(1001)
      socket.send({ type: 'response.create', ...hello, stream_id: 'late' })
      await vi.waitFor(
        () => expect(socket.received.at(-1)).toMatchObject({ status: 503, error: { code: 'server_shutdown' } }),
        WAIT_OPTIONS,
      )
      gate.resolve()
      expect((await socket.untilEnd()).at(-1)).toMatchObject({ status: 503, stream_id: 'late' })
      expect((await socket.untilEnd()).at(-1)).toMatchObject({ type: 'response.completed' })
      expect(await socket.closed).toBe(1001)
      await stopped
      expect(await app.usage(customer)).toMatchObject([{ success: true }])
    } finally {
      await app.close()
    }
  })

  test('when the time for running responses is over: they fail and are free', async () => {
    const app = await startTestApp({ offers: [testOffer(upstream.baseUrl)] })
    try {
      const { customer, socket } = await open(app)
      upstream.respondWith(sse(streamEvents({ text: 'Never ends' }).slice(0, 2), { ending: 'stall' }))
      socket.send({ type: 'response.create', ...hello })
      for (let event = await socket.next(); event.delta === undefined; ) event = await socket.next()
      await app.stop({ drainMs: 0 })
      expect((await socket.untilEnd()).at(-1)).toMatchObject({
        type: 'response.failed',
        response: { error: { code: 'server_shutdown' } },
      })
      expect(await app.usage(customer)).toMatchObject([{ cost_nanos: 0n }])
    } finally {
      await app.close()
    }
  })
})

test('a crowd of connections on one key is served, each with exact receipts', async () => {
  const customer = await gateway.customer()
  const sockets = await Promise.all(Array.from({ length: 8 }, () => openResponses(gateway, customer)))
  upstream.always(answer({ text: 'Good' }))
  const ends = await Promise.all(sockets.map(async socket => [await socket.ask(hello), await socket.ask(hello)]))
  expect(ends.flat().map(({ type }) => type)).toEqual(Array(16).fill('response.completed'))
  const rows = await gateway.settled(customer, 16)
  const sum = rows.reduce((total, row) => total + row.cost_nanos, 0n)
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n - sum)
})
