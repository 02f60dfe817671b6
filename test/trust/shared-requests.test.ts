import { expect, test } from 'vitest'
import { MasterKeys } from '../../src/base/secrets/master-keys.ts'
import { createRecentManners } from '../../src/market/trust/audits/request-samples.ts'
import { sharedBody } from '../../src/market/trust/audits/shared-body.ts'
import { createSharedRequests } from '../../src/market/trust/audits/shared-requests.ts'
import { startRequestSamples } from '../../src/start/compose/request-samples.ts'
import { chatDialect } from '../../src/wire/dialects/chat/chat-dialect.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { createCustomers } from './trust-world.ts'

const database = useTestDatabase()
const messages = [{ role: 'user', content: 'Which river?' }]
const jobOf = (body: object) => chatDialect.parseRequest(Buffer.from(JSON.stringify({ model: 'm', messages, ...body })))

function world() {
  let nowMs = 0
  const shared = createSharedRequests({ epochMs: () => nowMs, monotonicMs: () => nowMs })
  let count = 0
  const add = (customerId: string, modelId = 'm', hosterId: string | null = 'other') =>
    shared.add({
      ...{ customerId, modelId, hosterId, conversation: `conversation ${++count}` },
      ...{ body: { n: count }, constraints: jobOf({}).constraints },
    })
  const take = (modelId = 'm', hosterId = 'own', related: string[] = []) =>
    shared.take(modelId, hosterId, new Set(related))?.body.n
  const pass = (ms: number) => {
    nowMs += ms
  }
  return { shared, add, take, pass }
}

test('a request is taken once, not by the hoster that answered it or that is related to its customer', () => {
  const { add, take } = world()
  add('a')
  add('b', 'm', 'own')
  add('c', 'm', null)
  expect(take('other-model')).toBeUndefined()
  expect(take('m', 'own', ['a'])).toBe(3)
  expect(take('m', 'own', ['a'])).toBeUndefined()
  expect([take(), take()]).toEqual([1, undefined])
  expect(take('m', 'third')).toBe(2)
})

test('a request that nobody takes is dropped within an hour', () => {
  const { shared, add, pass } = world()
  add('a')
  pass(3_539_999)
  shared.dropExpired()
  expect(shared.customers()).toEqual(['a'])
  pass(1)
  shared.dropExpired()
  expect([shared.customers(), shared.conversations('m')]).toEqual([[], []])
})

test('the newest requests of an hour are kept, at most a quarter of one customer', () => {
  const { add, take, pass } = world()
  for (let n = 0; n < 30; n++) add('a')
  for (let n = 0; n < 100; n++) add(`customer ${n}`)
  const taken: unknown[] = []
  for (let next = take(); next !== undefined; next = take()) taken.push(next)
  expect(taken).toEqual(Array.from({ length: 50 }, (_, at) => 81 + at))
  for (let n = 0; n < 30; n++) add('a')
  expect(take()).toBe(149)
  add('b')
  pass(3_539_999)
  add('c')
  expect(take('m', 'own', ['a'])).toBe(161)
  pass(1)
  expect(take()).toBe(162)
  expect(take()).toBeUndefined()
})

test('of a conversation the latest request is kept', () => {
  const { shared, pass } = world()
  const add = (n: number, conversation: string) =>
    shared.add({
      ...{ customerId: 'a', conversation, modelId: 'm', hosterId: 'first' },
      ...{ body: { n }, constraints: jobOf({}).constraints },
    })
  const take = () => shared.take('m', 'third', new Set())?.body.n
  add(1, 'x')
  add(2, 'y')
  add(3, 'x')
  expect(shared.conversations('m')).toEqual(['y', 'x'])
  expect([take(), take(), take()]).toEqual([2, 3, undefined])
  const wasTaken = (modelId: string, hosterId: string) => shared.hasTaken(modelId, hosterId)
  expect([wasTaken('m', 'third'), wasTaken('other', 'third'), wasTaken('m', 'first')]).toEqual([true, false, false])
  pass(86_400_000)
  expect(wasTaken('m', 'third')).toBe(false)
})

test('of all models together, 200 are kept', () => {
  const { add, shared, take } = world()
  for (let n = 0; n < 300; n++) add(`customer ${n}`, `model ${n}`)
  expect(shared.customers()).toHaveLength(200)
  expect(take('model 99')).toBeUndefined()
  expect(take('model 100')).toBe(101)
})

test('requests of customers that no longer share them are dropped', () => {
  const { add, shared, take } = world()
  add('a')
  add('b')
  shared.keepOnly(new Set(['b']))
  expect([take(), take()]).toEqual([2, undefined])
})

test('when a customer takes its consent back, or is disabled, what is kept of its requests is dropped', async () => {
  const [sharing, former, disabled] = await createCustomers(database, 3)
  const { pool } = database
  const changes: (() => void | Promise<void>)[] = []
  const { shared } = startRequestSamples(
    {
      ...{ clock: { epochMs: () => 0, monotonicMs: () => 0 }, random: () => 0, scheduler: { after: () => () => {} } },
      ...{ masterKeys: new MasterKeys([Buffer.alloc(32)]), started: { defer() {} } },
    } as never,
    { lookups: pool } as never,
    { changes: { onChange: (_: string, listener: () => void) => changes.push(listener) } } as never,
  )
  for (const customerId of [sharing!, former!, disabled!])
    shared.add({
      ...{ customerId, conversation: customerId, modelId: 'm', hosterId: null },
      ...{ body: {}, constraints: jobOf({}).constraints },
    })
  const notice = () => Promise.all(changes.map(listener => listener()))
  await pool.query('UPDATE customer SET shares_requests = true')
  await notice()
  expect(shared.customers()).toEqual([sharing, former, disabled])
  await pool.query('UPDATE customer SET shares_requests = false WHERE customer_id = $1', [former])
  await pool.query('UPDATE customer SET disabled_at = now() WHERE customer_id = $1', [disabled])
  await notice()
  expect(shared.customers()).toEqual([sharing])
})

test('a request that was taken is not sent on when its customer takes its consent back', () => {
  const { add, shared, take, pass } = world()
  add('a')
  expect([take(), shared.isShared('a'), shared.customers()]).toEqual([1, true, ['a']])
  shared.keepOnly(new Set())
  expect([shared.isShared('a'), shared.customers()]).toEqual([false, []])
  add('b')
  take()
  pass(3_600_000)
  add('c')
  take()
  expect(shared.customers()).toEqual(['c'])
})

test('a shared body has what changes the answer, and nothing that names the person', () => {
  const settings = { temperature: 0, max_tokens: 9, stop: ['x'], top_k: 3 }
  const job = jobOf({
    ...settings,
    user: 'ada',
    store: true,
    metadata: { a: 'b' },
    prompt_cache_key: 'k',
    stream: true,
  })
  expect(sharedBody(job, 1_000)?.fields).toEqual({ messages, ...settings, stream: true })
})

test.each([
  ['privacy mode', { privacy_mode: true }],
  ['several choices', { n: 2 }],
  ['a long prompt', { messages: [{ role: 'user', content: 'x'.repeat(1_001) }] }],
  [
    'an image',
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://e.com/i' } }] }] },
  ],
  ['a field of unknown effect', { documents: ['a'] }],
  ['a large schema', { response_format: { type: 'json_object', padding: 'x'.repeat(5_000) } }],
])('a request with %s is not shared', (_, body) => {
  expect(sharedBody(jobOf(body), 1_000)).toBeNull()
})

test('the manners of requests are drawn without their text, with the time since the request before', () => {
  let draw = 0
  const manners = createRecentManners(() => draw)
  manners.note(jobOf({}), 1_000)
  expect(manners.draw()).toBeUndefined()
  manners.note(jobOf({ temperature: 0.51, max_tokens: 7, stop: 'secret', user: 'ada', stream: true }), 1_250)
  manners.note(jobOf({ temperature: 1 }), 1_260)
  manners.note(jobOf({ top_p: 0.1 }), 1_300)
  expect(manners.draw()).toEqual({ fields: { temperature: 0.5, max_tokens: 8, stream: true }, gapMs: 250 })
  draw = 0.9
  expect(manners.draw()).toEqual({ fields: { top_p: 0.1 }, gapMs: 40 })
})

test('the manners of the latest 500 requests are kept', () => {
  const manners = createRecentManners(() => 0)
  for (let n = 0; n <= 501; n++) manners.note(jobOf({ temperature: n === 501 ? 0.5 : 1 }), n * 1_000)
  expect(manners.draw()!.fields).toEqual({ temperature: 0.5 })
})
