import { once } from 'node:events'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test, vi } from 'vitest'
import { startTestApp, type TestApp, type TestAppOptions, type TestCustomer, testOffer } from '../harness/app.ts'
import { readError, readEventStream, readUntil } from '../harness/event-stream.ts'
import {
  answer,
  type ScriptedUpstream,
  sse,
  stall,
  startScriptedUpstream,
  streamEvents,
} from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'

const hello = { model: 'test-model', messages: [{ role: 'user', content: 'Hello' }] }

/** Starts an upstream and a gateway for one test. */
async function start(options: TestAppOptions = {}): Promise<{ upstream: ScriptedUpstream; gateway: TestApp }> {
  const upstream = await startScriptedUpstream()
  onTestFinished(() => upstream.close())
  const gateway = await startTestApp({ offers: [testOffer(upstream.baseUrl)], ...options })
  onTestFinished(() => gateway.close())
  return { upstream, gateway }
}

/** A stream that pauses in the middle until `gate` resolves. */
const gated = (gate: Promise<void>) =>
  sse(streamEvents({ text: 'one two' }), { beforeEvent: index => (index === 2 ? gate : undefined) })

test('overloaded: a request beyond max_in_flight is refused until a running one ends', async () => {
  const { upstream, gateway } = await start({ yaml: 'server: { max_in_flight: 2 }' })
  const customer = await gateway.customer()
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(gated(gate.promise), gated(gate.promise))
  const running = [
    await gateway.chat(customer, { ...hello, stream: true }),
    await gateway.chat(customer, { ...hello, stream: true }),
  ]
  const refused = await gateway.chat(customer, hello)
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(refused.headers.get('x-should-retry')).toBeNull()
  expect(await readError(refused)).toMatchObject({
    status: 503,
    type: 'service_unavailable_error',
    code: 'overloaded',
  })
  gate.resolve()
  for (const response of running) expect((await readEventStream(response)).done).toBe(true)
  expect((await gateway.chat(customer, hello)).status).toBe(200)
  expect((await gateway.usage(customer)).length).toBe(3)
})

test('server_shutdown: while draining, new chats are refused, /readyz is 503, and running chats finish and are billed', async () => {
  const { upstream, gateway } = await start()
  const customer = await gateway.customer()
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(gated(gate.promise))
  const running = await gateway.chat(customer, { ...hello, stream: true })
  const closing = gateway.stop({ drainMs: 10_000 })
  expect((await fetch(`${gateway.url}/readyz`)).status).toBe(503)
  expect((await fetch(`${gateway.url}/healthz`)).status).toBe(200)
  for (const stream of [true, false]) {
    const refused = await gateway.chat(customer, { ...hello, stream })
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(refused.headers.get('connection')).toBe('close')
    expect(await readError(refused)).toMatchObject({ status: 503, code: 'server_shutdown' })
  }
  gate.resolve()
  expect(await readEventStream(running)).toMatchObject({ done: true, text: 'one two', error: null })
  await closing
  expect(await gateway.usage(customer)).toMatchObject([{ outcome: 'served', success: true }])
  expect(await gateway.balanceNanos(customer)).toBeLessThan(5_000_000_000n)
})

// Went wrong: the client sent its next request on the kept connection, and got a 503; then the connection ended with the
// stream, under the next request of nginx, whose client got a 502 (issue 40).
test.each(['plain', 'chunked'])(
  'the connection of a stream that began before the stop serves one more request (%s body)',
  async form => {
    const { upstream, gateway } = await start()
    const customer = await gateway.customer()
    const [gate, otherGate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    upstream.respondWith(gated(gate.promise), gated(otherGate.promise))
    const open = await openRaw(gateway.url)
    open.send(customer, { ...hello, stream: true }, form)
    await vi.waitFor(() => expect(open.received()).toContain('data: '), WAIT_OPTIONS)
    const other = await gateway.chat(customer, { ...hello, stream: true })
    const closing = gateway.stop({ drainMs: 10_000 })
    gate.resolve()
    await vi.waitFor(() => expect(open.received()).toContain('[DONE]\n\n\r\n0\r\n\r\n'), WAIT_OPTIONS)
    expect(open.received()).toMatch(/\r\nConnection: keep-alive\r\n/i)
    open.send(customer, hello, form)
    // Ends although the other stream keeps the gateway running.
    const received = await open.ended
    const second = received.slice(received.indexOf('0\r\n\r\n') + 5)
    expect(second).toMatch(/^HTTP\/1\.1 200 .*\r\nconnection: close\r\n/is)
    expect(second).toContain('chat.completion')
    otherGate.resolve()
    expect(await readEventStream(other)).toMatchObject({ done: true })
    await closing
  },
)

// Went wrong: agents leave a gateway that stops, and a client behind nginx got a 500 for a model that the other gateway had.
test('a request that finds no server while the gateway stops gets a 503, which a proxy sends to another one', async () => {
  const { upstream, gateway } = await start()
  const customer = await gateway.customer()
  const [asked, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  upstream.respondWith(async (_asked, response) => {
    asked.resolve()
    await gate.promise
    response.writeHead(429).end()
  })
  const running = gateway.chat(customer, hello)
  await asked.promise
  const closing = gateway.stop({ drainMs: 10_000 })
  gate.resolve()
  expect(await readError(await running)).toMatchObject({ status: 503, code: 'server_shutdown' })
  await closing
})

// Went wrong: a client behind a Kubernetes Service used connections that it had kept idle since before the stop, and got
// a 503 that no proxy sent to another gateway (issue 40).
test.each(['plain', 'chunked'])(
  'an idle connection of before the stop serves one more request in the drain, a new connection none (%s body)',
  async form => {
    const { upstream, gateway } = await start()
    const customer = await gateway.customer()
    const gate = Promise.withResolvers<void>()
    upstream.respondWith(gated(gate.promise))
    const idle = await openRaw(gateway.url)
    const running = await gateway.chat(customer, { ...hello, stream: true })
    const closing = gateway.stop({ drainMs: 10_000 })
    const late = await openRaw(gateway.url)
    late.send(customer, hello, form)
    expect(await late.ended).toMatch(/^HTTP\/1\.1 503 .*\r\nconnection: close\r\n.*"server_shutdown"/is)
    idle.send(customer, hello, form)
    expect(await idle.ended).toMatch(/^HTTP\/1\.1 200 .*\r\nconnection: close\r\n.*chat\.completion/is)
    gate.resolve()
    expect(await readEventStream(running)).toMatchObject({ done: true })
    await closing
    expect(await gateway.usage(customer)).toHaveLength(2)
  },
)

test('after the drain, open connections are served once more, to the end of the answer, and none is accepted', async () => {
  const { upstream, gateway } = await start({ timeouts: { closingGraceMs: 300 } })
  const customer = await gateway.customer()
  const [idle, kept] = [await openRaw(gateway.url), await openRaw(gateway.url)]
  kept.send(customer, hello, 'plain')
  await vi.waitFor(() => expect(kept.received()).toContain('chat.completion'), WAIT_OPTIONS)
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(gated(gate.promise))
  let isStopped = false
  const closing = gateway.stop({ drainMs: 60_000 }).then(() => {
    isStopped = true
  })
  kept.send(customer, { ...hello, stream: true }, 'plain')
  await vi.waitFor(() => expect(kept.received()).toContain('data: '), WAIT_OPTIONS)
  await vi.waitFor(() => expect(fetch(`${gateway.url}/healthz`)).rejects.toThrow(), WAIT_OPTIONS)
  idle.send(customer, hello, 'plain')
  expect(await idle.ended).toMatch(/^HTTP\/1\.1 200 .*\r\nconnection: close\r\n/is)
  expect(isStopped).toBe(false)
  gate.resolve()
  expect(await kept.ended).toMatch(/\[DONE\]/)
  await closing
  expect(await gateway.usage(customer)).toHaveLength(3)
})

test('connections in the accept queue are served when the server stops listening', async () => {
  const { gateway } = await start({ timeouts: { closingGraceMs: 5_000 } })
  const { hostname, port } = new URL(gateway.url)
  const sockets = Array.from({ length: 10 }, () => connect(Number(port), hostname))
  const answers = sockets.map(async socket => {
    socket.setEncoding('utf8').write('GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n')
    return (await text(socket).catch(String)).slice(0, 12)
  })
  // By now the kernel has established the connections, and this process has not accepted them yet.
  await new Promise(resolve => process.nextTick(resolve))
  void gateway.stop()
  expect(await Promise.all(answers)).toEqual(Array(10).fill('HTTP/1.1 200'))
})

test('a stream that outlasts the drain ends with an error chunk and is free', async () => {
  const { upstream, gateway } = await start()
  const customer = await gateway.customer()
  const never = new Promise<void>(() => {})
  upstream.respondWith(gated(never), stall())
  const running = await gateway.chat(customer, { ...hello, stream: true })
  const waiting = gateway.chat(customer, hello)
  await upstream.next()
  const recorded = await upstream.next()
  await gateway.stop({ drainMs: 50 })
  const stream = await readEventStream(running)
  expect(stream).toMatchObject({ done: false, text: 'one' })
  expect(stream.error).toMatchObject({ type: 'service_unavailable_error', code: 'server_shutdown' })
  expect(await readError(await waiting)).toMatchObject({ status: 503, code: 'server_shutdown' })
  expect(await recorded.aborted).toBe(true)
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n)
  expect((await gateway.usage(customer)).map(row => [row.outcome, row.success, row.cost_nanos])).toEqual([
    ['shutdown', false, 0n],
    ['shutdown', false, 0n],
  ])
})

test('database_unavailable: nothing is admitted while the database is down', async () => {
  const { upstream, gateway } = await start({ mayBeCutOff: true })
  const customer = await gateway.customer()
  expect((await gateway.chat(customer, hello)).status).toBe(200)
  const restore = gateway.cutOff()
  const refused = await gateway.chat(customer, hello)
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(await readError(refused)).toMatchObject({
    status: 503,
    type: 'service_unavailable_error',
    code: 'database_unavailable',
  })
  const withoutKey = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: 'Bearer x' } })
  expect(withoutKey.status).toBe(401)
  expect((await fetch(`${gateway.url}/readyz`)).status).toBe(503)
  expect(upstream.requests.length).toBe(1)
  restore()
  await vi.waitFor(async () => expect((await gateway.chat(customer, hello)).status).toBe(200), WAIT_OPTIONS)
})

test('database_unavailable: requests fail fast while database connections hang', async () => {
  const { gateway } = await start({ mayBeCutOff: true })
  const [customer, newcomer] = [await gateway.customer(), await gateway.customer()]
  expect((await gateway.chat(customer, hello)).status).toBe(200)
  const restore = gateway.cutOff({ silently: true })
  // Only a report may wait half a minute.
  const signal = AbortSignal.timeout(15_000)
  const all = await Promise.all([
    gateway.chat(customer, hello, { signal }),
    gateway.chat(customer, hello, { signal, headers: { 'idempotency-key': 'once' } }),
    gateway.chat(newcomer, hello, { signal }),
    fetch(`${gateway.url}/readyz`, { signal }),
  ])
  expect(all.map(({ status }) => status)).toEqual([503, 503, 503, 503])
  restore()
  await vi.waitFor(async () => expect((await gateway.chat(newcomer, hello)).status).toBe(200), WAIT_OPTIONS)
})

test('an answer waits for a database that comes back in time, and is charged once', async () => {
  const { upstream, gateway } = await start({ mayBeCutOff: true })
  const customer = await gateway.customer()
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(gated(gate.promise))
  const running = await gateway.chat(customer, { ...hello, stream: true })
  const restore = gateway.cutOff()
  gate.resolve()
  const reader = running.body!.getReader()
  await readUntil(reader, 'two')
  restore()
  expect(await readUntil(reader, '[DONE]')).not.toContain('error')
  expect(await gateway.usage(customer)).toMatchObject([{ outcome: 'served', success: true }])
})

test('settlement_unavailable: an answer whose charge cannot be committed is discarded and free', async () => {
  const { upstream, gateway } = await start({ mayBeCutOff: true, timeouts: { commitWaitMs: 500 } })
  const customer = await gateway.customer()
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(gated(gate.promise), async (request, response) => {
    await gate.promise
    await answer()(request, response)
  })
  const streaming = await gateway.chat(customer, { ...hello, stream: true })
  const whole = gateway.chat(customer, hello)
  await upstream.next()
  await upstream.next()
  const restore = gateway.cutOff()
  gate.resolve()
  const [stream, refused] = await Promise.all([readEventStream(streaming), whole])
  expect(stream.done).toBe(false)
  expect(stream.error).toMatchObject({ code: 'settlement_unavailable' })
  expect(await readError(refused)).toMatchObject({ status: 504, code: 'settlement_unavailable' })
  restore()
  const rows = await gateway.settled(customer, 2)
  expect(rows.map(row => [row.success, row.cost_nanos])).toEqual([
    [false, 0n],
    [false, 0n],
  ])
  expect(await gateway.balanceNanos(customer)).toBe(5_000_000_000n)
})

/** Opens a connection that is sent requests byte by byte, as `fetch` would not. */
async function openRaw(url: string) {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let received = ''
  socket.setEncoding('utf8').on('data', chunk => {
    received += chunk
  })
  const ended = once(socket, 'end').then(() => received)
  await once(socket, 'connect')
  return {
    ended,
    received: () => received,
    /** A chunked body goes through node:http, a plain one does not. */
    send({ key }: TestCustomer, chat: object, form: string) {
      const body = JSON.stringify(chat)
      const size = form === 'plain' ? `content-length: ${body.length}` : 'transfer-encoding: chunked'
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\n${size}\r\n\r\n`,
      )
      socket.write(form === 'plain' ? body : `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`)
    },
  }
}
