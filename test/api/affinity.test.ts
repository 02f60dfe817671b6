import { beforeAll, expect, test } from 'vitest'
import { LATENCY_SAMPLES_MIN } from '../../src/base/domain/health.ts'
import { type TestCustomer, testOffer } from '../harness/app.ts'
import { answer, status } from '../harness/scripted-upstream.ts'
import { useTestApp, useUpstream } from '../harness/use-test-app.ts'

// Two servers at the same price: `cheapest` tries `a` first. The text of each answer names its server. The clock stands
// still, so that latencies do not change the order.
const a = useUpstream()
const b = useUpstream()
const gateway = useTestApp(() => ({
  offers: Object.entries({ a, b }).map(([endpointId, { baseUrl }]) => testOffer(baseUrl, { endpoint: { endpointId } })),
  clock: { epochMs: () => Date.now(), monotonicMs: () => 0 },
}))
beforeAll(async () => {
  a.always(answer({ text: 'a' }))
  b.always(answer({ text: 'b' }))
  // A measured server comes before one at the same price that is not.
  const customer = await gateway.customer()
  for (let count = 0; count < LATENCY_SAMPLES_MIN; count++) expect(await servedBy(customer, {})).toBe('a')
})

interface Sent {
  readonly body?: object
  readonly headers?: Record<string, string>
}

/** Sends a conversation that begins in a new way, so that only its session can lead it back to a server. */
async function servedBy(customer: TestCustomer, { body = {}, headers = {} }: Sent, query = ''): Promise<string> {
  const messages = [{ role: 'user', content: `Question ${questions++}` }]
  const response = await fetch(`${gateway.url}/v1/chat/completions${query}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'test-model', tier: 'cheapest', messages, ...body }),
  })
  expect(response.status).toBe(200)
  const { choices } = (await response.json()) as { choices: { message: { content: string } }[] }
  return choices[0]!.message.content
}
let questions = 0

/** Sends a request while server `a` fails, so that its session continues at `b`. */
async function beginAtB(customer: TestCustomer, sent: Sent): Promise<void> {
  a.respondWith(status(500))
  expect(await servedBy(customer, sent)).toBe('b')
}

test.each<[name: string, sent: Sent]>([
  ['prompt_cache_key', { body: { prompt_cache_key: 'one session' } }],
  ['session-id', { headers: { 'Session-Id': 'one session' } }],
  ['x-session-id', { headers: { 'X-Session-Id': 'one session' } }],
  ['x-claude-code-session-id', { headers: { 'X-Claude-Code-Session-Id': 'one session' } }],
])('%s keeps a session at its server, until that server fails', async (_, sent) => {
  const [customer, other] = [await gateway.customer(), await gateway.customer()]
  await beginAtB(customer, sent)
  expect(await servedBy(customer, sent)).toBe('b')
  // A query makes it a request for node:http.
  expect(await servedBy(customer, sent, '?through=node')).toBe('b')
  expect(await servedBy(customer, {})).toBe('a')
  expect(await servedBy(other, sent)).toBe('a')
  b.respondWith(status(500))
  expect(await servedBy(customer, sent)).toBe('a')
  expect(await servedBy(customer, sent)).toBe('a')
})

test('prompt_cache_key comes before the headers, and the headers have an order too', async () => {
  const customer = await gateway.customer()
  const body = { prompt_cache_key: 'body' }
  const names = ['session-id', 'x-session-id', 'x-claude-code-session-id']
  await beginAtB(customer, { body })
  for (const name of names) await beginAtB(customer, { headers: { [name]: name } })
  const others = Object.fromEntries(names.map(name => [name, `not ${name}`]))
  expect(await servedBy(customer, { body, headers: others })).toBe('b')
  expect(await servedBy(customer, { headers: { ...others, 'session-id': 'session-id' } })).toBe('b')
  const { 'session-id': _, ...later } = others
  expect(await servedBy(customer, { headers: { ...later, 'x-session-id': 'x-session-id' } })).toBe('b')
  expect(await servedBy(customer, { headers: others })).toBe('a')
})
