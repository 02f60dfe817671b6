import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { expect, test, vi } from 'vitest'
import { ConnectionWatch } from '../../src/http/connection-watch.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { readEventStream, readUntil } from '../harness/event-stream.ts'
import {
  answer,
  chunk,
  contentChunk,
  neverEnding,
  sse,
  stall,
  streamEvents,
  usageOf,
} from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const startedMs = Date.now()
const upstream = useUpstream()
const gateway = useTestApp(() => ({
  offers: [
    testOffer(upstream.baseUrl),
    testOffer(upstream.baseUrl, {
      modelId: 'free-model',
      price: { inputPicoPerToken: 0n, outputPicoPerToken: 0n },
      contextTokens: 2 ** 30,
      maxOutputTokens: 2 ** 29,
    }),
  ],
  timeouts: { slowReaderMs: 300 },
  // The day never ends, so the free departures are counted from the first test to the last.
  clock: { epochMs: () => startedMs, monotonicMs: () => performance.now() },
}))

const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }
/** "Hello" is one token; 3 for the message, 3 for the request. */
const inputTokens = 7

/** Sends a chat and disconnects once the upstream has received it. */
async function leaveEarly(customer: TestCustomer, stream: boolean): Promise<void> {
  const client = new AbortController()
  const asked = gateway.chat(customer, { ...hello, stream }, { signal: client.signal })
  const recorded = await upstream.next()
  client.abort()
  await expect(asked).rejects.toThrow()
  expect(await recorded.aborted).toBe(true)
}

test.each([
  ['the plain server', 'Hello'],
  ['node:http', 'x'.repeat(100_000)],
])('a client that disconnects before the answer is counted as 499, served by %s', async (_server, content) => {
  const customer = await gateway.customer()
  const before = await chatCounts()
  upstream.respondWith(stall())
  const client = new AbortController()
  const asked = gateway.chat(
    customer,
    { model: 'free-model', messages: [{ role: 'user', content }] },
    { signal: client.signal },
  )
  await upstream.next()
  client.abort()
  await expect(asked).rejects.toThrow()
  await vi.waitFor(async () => {
    const { answered, left } = await chatCounts()
    expect({ answered, left }).toEqual({ answered: before.answered, left: before.left + 1 })
  }, WAIT_OPTIONS)
})

/** How many chats were answered with 200, and how many ended without an answer. */
async function chatCounts(): Promise<{ answered: number; left: number }> {
  const text = await gateway.metrics()
  const count = (status: number) => {
    const line = new RegExp(
      `^switchyard_http_requests_total\\{path="/v1/chat/completions",status="${status}"\\} (\\d+)$`,
      'm',
    )
    return Number(line.exec(text)?.[1] ?? 0)
  }
  return { answered: count(200), left: count(499) }
}

test('a disconnect in the middle of a stream aborts the upstream and pays input and generated output', async () => {
  const customer = await gateway.customer()
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(
    sse(
      [
        chunk({ role: 'assistant', content: '' }),
        ...['one', ' two', ' three'].map(contentChunk),
        contentChunk(' late'),
      ],
      {
        beforeEvent: index => (index === 4 ? gate.promise : undefined),
        ending: 'stall',
      },
    ),
  )
  const client = new AbortController()
  const response = await gateway.chat(customer, { ...hello, stream: true }, { signal: client.signal })
  const recorded = await upstream.next()
  await readUntil(response.body!.getReader(), 'three')
  client.abort()
  expect(await recorded.aborted).toBe(true)
  gate.resolve()
  const [row] = await gateway.settled(customer, 1)
  expect(row).toMatchObject({
    outcome: 'client_gone',
    success: true,
    usage_source: 'gateway',
    input_tokens: inputTokens,
    output_tokens: 3,
    cost_nanos: 7_000n + 6_000n,
  })
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n - 13_000n)
})

test('a disconnect aborts an upstream that never ends', async () => {
  const customer = await gateway.customer()
  upstream.respondWith(neverEnding())
  const client = new AbortController()
  const response = await gateway.chat(customer, { ...hello, stream: true }, { signal: client.signal })
  const recorded = await upstream.next()
  await readUntil(response.body!.getReader(), 'more')
  client.abort()
  expect(await recorded.aborted).toBe(true)
  const [row] = await gateway.settled(customer, 1)
  expect(row!.outcome).toBe('client_gone')
  expect(row!.cost_nanos).toBeGreaterThan(0n)
  expect(row!.cost_nanos).toBeLessThanOrEqual(row!.hold_nanos)
})

test('a disconnect before the first token is free twenty times a day, then it pays the input', async () => {
  const customer = await gateway.customer()
  for (let leave = 1; leave <= 22; leave++) {
    upstream.respondWith(leave % 2 ? stall() : stall('headers'))
    await leaveEarly(customer, leave % 3 > 0)
    await gateway.settled(customer, leave)
  }
  const rows = await gateway.usage(customer)
  expect(rows.map(row => row.outcome)).toEqual(Array(22).fill('client_gone'))
  expect(rows.map(row => row.cost_nanos)).toEqual([...Array(20).fill(0n), 7_000n, 7_000n])
  expect(rows.at(-1)).toMatchObject({ provider: 'local', input_tokens: inputTokens, output_tokens: 0 })
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n - 14_000n)

  const other = await gateway.customer()
  upstream.respondWith(stall())
  await leaveEarly(other, true)
  expect((await gateway.settled(other, 1))[0]!.cost_nanos).toBe(0n)
})

test('disconnects do not count as failures of the server', async () => {
  const customer = await gateway.customer()
  for (let leave = 1; leave <= 6; leave++) {
    upstream.respondWith(stall())
    await leaveEarly(customer, true)
  }
  upstream.respondWith(answer())
  expect((await gateway.chat(customer, hello)).status).toBe(200)
  await upstream.next()
})

test('a client that disconnects while it sends the body pays nothing', async () => {
  const customer = await gateway.customer()
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${customer.key}\r\n` +
      'content-type: application/json\r\ncontent-length: 1000\r\n\r\n{"model":',
    () => socket.resetAndDestroy(),
  )
  await new Promise(resolve => socket.once('close', resolve))
  upstream.respondWith(answer())
  expect((await gateway.chat(customer, hello)).status).toBe(200)
  await upstream.next()
  expect((await gateway.usage(customer)).length).toBe(1)
})

test.each<[how: string, leave: (socket: Socket) => void]>([
  ['closes', socket => socket.destroy()],
  ['resets', socket => socket.resetAndDestroy()],
  ['closes its side', socket => socket.end()],
])('a client that %s the connection while its key is read pays nothing', async (_how, leave) => {
  const customer = await gateway.customer()
  const lock = await gateway.database.pool.pg.connect()
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  try {
    await lock.query('BEGIN')
    await lock.query('LOCK TABLE api_key IN ACCESS EXCLUSIVE MODE')
    const body = JSON.stringify(hello)
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${customer.key}\r\n` +
        `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    )
    await vi.waitFor(async () => {
      const { rows } = await lock.query(
        `SELECT FROM pg_locks
          WHERE relation = 'api_key'::regclass AND NOT granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      )
      expect(rows).toHaveLength(1)
    }, WAIT_OPTIONS)
    leave(socket)
    await once(socket, 'close')
    // The server reads this later connection after the disconnect.
    await (await fetch(`${gateway.url}/healthz`)).text()
  } finally {
    await lock.query('ROLLBACK')
    lock.release()
  }
  upstream.respondWith(answer())
  expect((await gateway.chat(customer, hello)).status).toBe(200)
  await upstream.next()
  await gateway.settled(customer, 1)
  expect(await gateway.usage(customer)).toHaveLength(1)
})

test('a client that stops reading counts as disconnected and frees the upstream', async () => {
  const customer = await gateway.customer()
  upstream.respondWith(neverEnding({ piece: 'x'.repeat(60_000), everyMs: 0 }))
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
  socket.on('error', () => {})
  socket.pause()
  const body = JSON.stringify({ ...hello, model: 'free-model', stream: true, max_tokens: 100_000_000 })
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${customer.key}\r\n` +
      `content-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
  )
  const recorded = await upstream.next()
  expect(await recorded.aborted).toBe(true)
  const [row] = await gateway.settled(customer, 1)
  socket.destroy()
  expect(row).toMatchObject({ outcome: 'client_gone', success: false })
  expect(row!.output_tokens).toBeGreaterThan(0)
})

test('a stream queued behind another on its connection is not cut off', async () => {
  const customer = await gateway.customer()
  const isRead = Promise.withResolvers<void>()
  upstream.respondWith(
    sse(streamEvents({ text: 'first' }), { beforeEvent: index => (index === 1 ? isRead.promise : undefined) }),
  )
  upstream.respondWith(sse(streamEvents({ text: 'x'.repeat(100_000) })))
  const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1').setEncoding('utf8')
  let text = ''
  socket.on('data', piece => {
    text += piece
  })
  const body = JSON.stringify({ ...hello, stream: true })
  // Chunked bodies go to node:http, which serves both requests at once and sends the second answer after the first.
  const request =
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${customer.key}\r\n` +
    `content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
  socket.write(request)
  await upstream.next()
  socket.write(request)
  await upstream.next()
  // The checks are slowReaderMs apart.
  const checks = vi.spyOn(ConnectionWatch.prototype, 'check')
  await expect.poll(() => checks.mock.calls.length).toBeGreaterThan(3)
  isRead.resolve()
  await vi.waitFor(() => expect(text.split('data: [DONE]')).toHaveLength(3), WAIT_OPTIONS)
  socket.destroy()
  expect(text).toContain('x'.repeat(100))
})

test('a stream read to its end counts as served even if the client disconnects at once', async () => {
  const customer = await gateway.customer()
  upstream.respondWith(answer({ usage: usageOf(10, 5) }))
  const client = new AbortController()
  const response = await gateway.chat(customer, { ...hello, stream: true }, { signal: client.signal })
  await upstream.next()
  await readUntil(response.body!.getReader(), '[DONE]')
  client.abort()
  expect(await gateway.usage(customer)).toMatchObject([{ outcome: 'served', cost_nanos: 20_000n }])
})

test('the hold of a client that disconnected is released', async () => {
  const customer = await gateway.customer({ creditNanos: 85_000n + 2_000n * 100n })
  upstream.respondWith(stall(), answer({ usage: usageOf(10, 5) }))
  await leaveEarly(customer, true)
  await gateway.settled(customer, 1)
  const response = await gateway.chat(customer, { ...hello, stream: true, max_tokens: 100 })
  expect((await readEventStream(response)).done).toBe(true)
})
