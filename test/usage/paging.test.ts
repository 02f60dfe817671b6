import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Caller } from '../../src/domain/caller.ts'
import { type Activity, createActivity } from '../../src/usage/activity.ts'
import { requestsQuery } from '../../src/wire/activity.ts'
import { createTestDatabase, type TestDatabase } from '../harness/database.ts'
import { createRichCustomer } from './customer.ts'
import { createTestGateway, type TestGateway } from './test-gateway.ts'
import type { Use } from './usage.ts'

let database: TestDatabase
let gateway: TestGateway
let activity: Activity
beforeAll(async () => {
  database = await createTestDatabase()
  gateway = createTestGateway(database)
  gateway.travel('2026-11-21T12:00:00.250Z')
  activity = createActivity({ sql: database.pool })
})
afterAll(() => database.drop())

const use: Use = {
  agoMs: 0,
  modelId: 'meta/llama-3',
  provider: 'hoster',
  hoster: 0,
  inputTokens: 31,
  outputTokens: 154,
  inputPicoPerToken: 50_000n,
  outputPicoPerToken: 100_001n,
  latencyMs: 398,
  isSuccess: true,
}

/** Pages to the end; `between` runs after each page. */
async function readAll(caller: Caller, query: object, between: (page: number) => Promise<unknown> = async () => {}) {
  const ids: string[] = []
  const sizes: number[] = []
  let cursor: string | null | undefined
  do {
    const page = await activity.list(caller, requestsQuery.parse({ ...query, ...(cursor && { cursor }) }))
    ids.push(...page.data.map(({ id }) => id))
    sizes.push(page.data.length)
    cursor = page.next_cursor
    expect(page.has_more).toBe(cursor !== null)
    await between(sizes.length)
  } while (cursor !== null)
  return { ids, sizes }
}

test('three thousand requests are paged newest first, none missed or doubled, while new ones arrive', async () => {
  const caller = await createRichCustomer(database.pool)
  // Many within one millisecond, where only the random part of their ids tells them apart.
  await gateway.use(
    caller,
    Array.from({ length: 3_000 }, (_, index) => ({ ...use, agoMs: 1_000 + Math.floor(index / 100) })),
  )
  const { rows } = await database.pool.query<{ request_id: string }>(
    'SELECT request_id FROM usage_event WHERE customer_id = $1 ORDER BY request_id DESC',
    [caller.customerId],
  )
  const before = rows.map(row => row.request_id)
  const { ids, sizes } = await readAll(caller, { limit: '97' }, page =>
    gateway.use(caller, [{ ...use, agoMs: page % 900 }]),
  )
  expect(ids).toEqual(before)
  expect(sizes).toEqual([...Array(30).fill(97), 90])
})

test('a filter that hardly any request passes gets short pages, and misses none', async () => {
  const caller = await createRichCustomer(database.pool)
  await database.pool.query(
    `INSERT INTO usage_event (customer_id, request_id, key_id, started_at, model_id, provider, input_tokens, output_tokens, usage_source,
       input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, outcome)
     SELECT $1, ('019aa000-0000-7000-8000-' || lpad(to_hex(i), 12, '0'))::uuid, $1, '2026-11-21T10:00:00Z',
       CASE WHEN i IN (1, 12000, 24000) THEN 'rare' ELSE 'common' END, 'none', 0, 0, 'none', 0, 0, 0, 0, 0, 0, 1, false, 'unserved'
     FROM generate_series(1, 25000) AS i`,
    [caller.customerId],
  )
  const { ids, sizes } = await readAll(caller, { model: 'rare' })
  expect(ids.map(id => Number.parseInt(id.slice(-12), 16))).toEqual([24_000, 12_000, 1])
  expect(sizes).toEqual([1, 1, 1])
})

test('filters narrow the list, each by itself and together', async () => {
  const caller = await createRichCustomer(database.pool)
  const other = { ...use, modelId: 'demo', provider: 'local', isSuccess: false } as const
  await gateway.use(caller, [
    { ...use, agoMs: 3_000 },
    { ...other, agoMs: 2_000 },
    { ...use, agoMs: 1_000, provider: 'none' },
  ])
  const found = async (query: object) => {
    const { data } = await activity.list(caller, requestsQuery.parse(query))
    return data.map(({ started_at }) => Number(started_at.slice(17, 19)))
  }
  expect(await found({})).toEqual([59, 58, 57])
  expect(await found({ model: 'demo' })).toEqual([58])
  expect(await found({ provider: 'none' })).toEqual([59])
  expect(await found({ success: 'true' })).toEqual([57])
  expect(await found({ success: 'false' })).toEqual([59, 58])
  expect(await found({ success: 'false', model: 'meta/llama-3' })).toEqual([59])
  expect(await found({ key: caller.keyId.toUpperCase() })).toEqual([59, 58, 57])
  expect(await found({ key: caller.customerId })).toEqual([])
  expect(await found({ from: '2026-11-21T11:59:58.250Z' })).toEqual([59, 58])
  expect(await found({ to: '2026-11-21T12:59:58.250+01:00' })).toEqual([57])
  expect(await found({ from: '2026-11-21', to: '2026-11-22' })).toEqual([59, 58, 57])
  expect(await found({ from: '2026-11-22' })).toEqual([])
  expect(await found({ to: '1970-01-01' })).toEqual([])
})

test('a page is the customer’s own', async () => {
  const [one, two] = [await createRichCustomer(database.pool), await createRichCustomer(database.pool)]
  await gateway.use(one, [use, use])
  const mine = await activity.list(one, requestsQuery.parse({ limit: '1' }))
  const theirs = await activity.list(two, requestsQuery.parse({ cursor: mine.next_cursor! }))
  expect(theirs.data).toEqual([])
})
