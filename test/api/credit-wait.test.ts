// Requests that wait for credit that other requests of their customer hold.
import { expect, test, vi } from 'vitest'
import type { RequestReceipt } from '../../src/wire/api/activity.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { readError, readEventStream } from '../harness/event-stream.ts'
import { answer, sse, streamEvents, usageOf } from '../harness/scripted-upstream.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

const upstream = useUpstream()
const gateway = useTestApp(() => ({
  yaml: 'limits: { wait_for_credit_ms: 60000 }',
  offers: [testOffer(upstream.baseUrl)],
}))

const chat = { model: 'test-model', messages: [{ role: 'user', content: 'Hi' }], max_tokens: 100 }
/** Pays for one request at a time. */
const creditNanos = 500_000n

/** Starts a stream that holds most of the credit of a new customer until `finish`. */
async function holdCredit() {
  const customer = await gateway.customer({ creditNanos })
  const gate = Promise.withResolvers<void>()
  upstream.respondWith(
    sse(streamEvents({ usage: usageOf(10, 5) }), { beforeEvent: index => (index === 2 ? gate.promise : undefined) }),
  )
  const running = await gateway.chat(customer, { ...chat, stream: true })
  expect(running.status).toBe(200)
  const finish = async () => {
    gate.resolve()
    expect((await readEventStream(running)).done).toBe(true)
  }
  return { customer, finish }
}

function send(customer: TestCustomer, more: object = {}, headers: Record<string, string> = {}) {
  return gateway.chat(customer, { ...chat, ...more }, { headers })
}

function untilWaiting(count: number): Promise<void> {
  return vi.waitFor(async () => expect(await waiting()).toBe(count), WAIT_OPTIONS)
}

async function waiting(): Promise<number> {
  return Number(/^switchyard_requests_waiting_for_credit (\d+)$/m.exec(await gateway.metrics())![1])
}

async function receiptOf({ key }: TestCustomer, response: Response): Promise<RequestReceipt> {
  return vi.waitFor(async () => {
    const url = `${gateway.url}/v1/usage/requests/${response.headers.get('x-request-id')}`
    const found = await fetch(url, { headers: { authorization: `Bearer ${key}` } })
    expect(found.status).toBe(200)
    return (await found.json()) as RequestReceipt
  }, WAIT_OPTIONS)
}

test('whole answers and streams wait for the running request, and the receipts say how long', async () => {
  const { customer, finish } = await holdCredit()
  upstream.always(answer({ usage: usageOf(10, 5) }))
  const whole = send(customer)
  await untilWaiting(1)
  const streamed = send(customer, { stream: true })
  await untilWaiting(2)
  await finish()
  const [first, second] = [await whole, await streamed]
  expect([first.status, second.status]).toEqual([200, 200])
  await Promise.all([first.text(), second.text()])
  for (const response of [first, second]) {
    const { credit_wait_ms: waitedMs, latency_ms: latencyMs } = await receiptOf(customer, response)
    expect(waitedMs).toBeGreaterThan(0)
    expect(latencyMs).toBeGreaterThanOrEqual(waitedMs)
  }
  const alone = await send(customer)
  await alone.text()
  expect(await receiptOf(customer, alone)).toMatchObject({ credit_wait_ms: 0 })
  expect(await waiting()).toBe(0)
})

test('a header, max_latency_ms and dry_run do not wait', async () => {
  const { customer, finish } = await holdCredit()
  const refused = [
    await send(customer, {}, { 'x-switchyard-wait-for-credit-ms': '0' }),
    await send(customer, { max_latency_ms: 1 }),
  ]
  for (const response of refused) {
    expect(Number(response.headers.get('retry-after'))).toBeGreaterThan(0)
    const error = await readError(response)
    expect(error).toMatchObject({ status: 402, code: 'in_flight_budget' })
    expect(error.message).toMatch(/Retry in \d+ seconds/)
  }
  expect((await send(customer, { dry_run: true })).status).toBe(200)
  for (const value of ['-1', '60001', 'no', '1.5'])
    expect(await readError(await send(customer, {}, { 'x-switchyard-wait-for-credit-ms': value }))).toMatchObject({
      status: 400,
      code: 'invalid_header',
      param: 'x-switchyard-wait-for-credit-ms',
    })
  await finish()
})

test('a client that leaves gives up its place, and the next request is served', async () => {
  const { customer, finish } = await holdCredit()
  upstream.always(answer({ usage: usageOf(10, 5) }))
  const client = new AbortController()
  const left = gateway.chat(customer, chat, { signal: client.signal })
  left.catch(() => {})
  await untilWaiting(1)
  client.abort()
  await untilWaiting(0)
  const next = send(customer)
  await untilWaiting(1)
  await finish()
  expect((await next).status).toBe(200)
  expect(await gateway.usage(customer)).toHaveLength(2)
})
