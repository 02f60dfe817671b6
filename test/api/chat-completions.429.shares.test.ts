import { expect, test, vi } from 'vitest'
import { startTestApp, type TestApp, type TestCustomer, testOffer } from '../harness/app.ts'
import { readError, readEventStream } from '../harness/event-stream.ts'
import { openClient } from '../harness/raw-client.ts'
import { answer, sse, streamEvents, usageOf } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  yaml: 'server: { max_in_flight: 8, memory_budget_bytes: 1200000 }',
  offers: [testOffer(upstream.baseUrl, { contextTokens: 1_000_000 })],
  // The minute never ends.
  clock: { epochMs: () => Date.UTC(2026, 10, 21, 9, 30, 15), monotonicMs: () => performance.now() },
}))

const chat = (content: string) => ({ model: 'test-model', messages: [{ role: 'user', content }], max_tokens: 16 })

test('a customer with many running streams leaves places for others', async () => {
  const [greedy, other] = [await gateway.customer(), await gateway.customer()]
  const gate = Promise.withResolvers<void>()
  const gated = sse(streamEvents({ usage: usageOf(1, 1) }), {
    beforeEvent: index => (index === 2 ? gate.promise : undefined),
  })
  upstream.always(gated)
  const running = []
  for (let n = 0; n < 6; n++) running.push(await gateway.chat(greedy, { ...chat('Hi'), stream: true }))
  expect(running.map(({ status }) => status)).toEqual(Array(6).fill(200))
  upstream.always(answer())
  const refused = await gateway.chat(greedy, chat('Hi'))
  expect(refused.headers.get('retry-after')).toMatch(/^\d+$/)
  const error = await readError(refused)
  expect(error).toMatchObject({ status: 429, code: 'too_many_concurrent_requests' })
  expect(error.message).toContain('Your account already runs 6 requests on this server')
  expect((await gateway.chat(other, chat('Hi'))).status).toBe(200)
  gate.resolve()
  for (const stream of running) expect((await readEventStream(stream)).done).toBe(true)
  expect((await gateway.chat(greedy, chat('Hi'))).status).toBe(200)
})

test('incomplete bodies count, and one customer leaves memory for the bodies of others', async () => {
  const [greedy, other] = [await gateway.customer({ tier: 'scale' }), await gateway.customer({ tier: 'scale' })]
  const slow = sendPart(gateway, greedy, 500_000)
  await vi.waitFor(async () => expect(await memoryUsed()).toBeGreaterThanOrEqual(500_000), WAIT_OPTIONS)
  const large = chat('word '.repeat(40_000))
  const refused = await readError(await gateway.chat(greedy, large))
  expect(refused).toMatchObject({ status: 429, code: 'too_many_concurrent_requests' })
  expect(refused.message).toContain('memory')
  expect((await gateway.chat(other, { ...large, max_tokens: 1 })).status).toBe(200)
  slow.socket.destroy()
  await vi.waitFor(async () => expect(await memoryUsed()).toBe(0), WAIT_OPTIONS)
  expect((await gateway.chat(greedy, { ...large, max_tokens: 1 })).status).toBe(200)
})

test('a whole answer that its client does not read counts until the client is gone', async () => {
  const offer = testOffer(upstream.baseUrl, { contextTokens: 1_000_000, maxOutputTokens: 400_000 })
  const roomy = await startTestApp({ offers: [offer] })
  try {
    const customer = await roomy.customer({ creditNanos: 1_000_000_000_000n })
    // The kernel takes some megabytes of it.
    const text = `word${' '.repeat(996)}`.repeat(10_000)
    upstream.respondWith(answer({ text, usage: usageOf(10, 300_000) }))
    const client = openClient(Number(new URL(roomy.url).port))
    client.socket.pause()
    const body = JSON.stringify({ ...chat('Hi'), max_tokens: 400_000 })
    const head = ['POST /v1/chat/completions HTTP/1.1', 'host: gateway', `authorization: Bearer ${customer.key}`]
    client.socket.write(
      [...head, 'content-type: application/json', `content-length: ${body.length}`, '', body].join('\r\n'),
    )
    await vi.waitFor(async () => expect((await roomy.usage(customer)).length).toBe(1), WAIT_OPTIONS)
    await vi.waitFor(async () => expect(await gaugeOf(roomy, 'switchyard_requests_in_flight')).toBe(0), WAIT_OPTIONS)
    expect(await memoryUsed(roomy)).toBeGreaterThan(1_000_000)
    client.socket.destroy()
    await vi.waitFor(async () => expect(await memoryUsed(roomy)).toBe(0), WAIT_OPTIONS)
  } finally {
    await roomy.close()
  }
})

test('a key with too many invalid requests is refused unread for the rest of the minute', async () => {
  const limits = { requestsPerMinute: 3, requestsPerDay: 100, dailySpendCapNanos: 5_000_000_000n }
  const customer = await gateway.customer({ limits })
  const statusOf = async (body: string) => (await gateway.chat(customer, {}, { body })).status
  expect([await statusOf('{'), await statusOf('{}'), await statusOf('[]')]).toEqual([400, 400, 400])
  const sentBefore = upstream.requests.length
  const refused = await gateway.chat(customer, chat('Hi'))
  expect(refused.headers.get('retry-after')).toBe('45')
  const error = await readError(refused)
  expect(error).toMatchObject({ status: 429, code: 'rate_limit_exceeded' })
  expect(error.message).toContain('3 invalid requests')
  expect(upstream.requests.length).toBe(sentBefore)
  expect((await gateway.chat(await gateway.anotherKey(customer), chat('Hi'))).status).toBe(200)
})

/** Sends the head of a request and `bytes` of a longer body. */
function sendPart({ url }: TestApp, { key }: TestCustomer, bytes: number) {
  const client = openClient(Number(new URL(url).port))
  const head = ['POST /v1/chat/completions HTTP/1.1', 'host: gateway', `authorization: Bearer ${key}`]
  client.socket.write([...head, 'content-type: application/json', `content-length: ${bytes + 1}`, '', ''].join('\r\n'))
  client.socket.write('x'.repeat(bytes))
  return client
}

function memoryUsed(app: TestApp = gateway): Promise<number> {
  return gaugeOf(app, 'switchyard_memory_budget_used_bytes')
}

async function gaugeOf({ app }: TestApp, name: string): Promise<number> {
  return Number(/^\S+ (\d+)$/m.exec(await app.metrics.getSingleMetricAsString(name))![1])
}
