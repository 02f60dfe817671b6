import { beforeAll, expect, test } from 'vitest'
import type { Sql } from '../../src/base/db/pool.ts'
import type { Caller } from '../../src/base/domain/caller.ts'
import { listTransactions } from '../../src/money/ledger/accounts/list-transactions.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import type { Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import { type Activity, createActivity } from '../../src/money/usage/activity.ts'
import { requestsQuery } from '../../src/wire/api/activity.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { createRichCustomer } from './customer.ts'
import { useTestGateway } from './test-gateway.ts'
import { hosterUse as use } from './usage.ts'

const database = useTestDatabase()
const gateway = useTestGateway(database)
let activity: Activity
beforeAll(async () => {
  gateway.travel('2026-11-21T12:00:00.250Z')
  await keepWithoutStatistics('usage_event')
  activity = createActivity({ sql: database.pool })
})

/**
 * Switches autovacuum off for the partitions of a table. With statistics, PostgreSQL reads a table as small as those of this
 * file in whole, which costs less than ten thousand rows of an index: rows read would depend on when autovacuum came by.
 */
async function keepWithoutStatistics(table: string): Promise<void> {
  const { rows } = await database.pool.query<{ partition: string }>(
    'SELECT relid::regclass AS partition FROM pg_partition_tree($1) WHERE isleaf',
    [table],
  )
  for (const { partition } of rows) await database.pool.query(`ALTER TABLE ${partition} SET (autovacuum_enabled = off)`)
}

/** Reads all pages; `between` runs after each page. */
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

test('three thousand requests are paged newest first, each once, while new ones arrive', async () => {
  const caller = await createRichCustomer(database.pool)
  // Many ids within one millisecond differ only in their random part.
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

test('refunds and later requests do not move pages, with and without filters', async () => {
  const caller = await createRichCustomer(database.pool)
  const served = { ...use, modelId: 'demo' }
  const history = Array.from({ length: 2_400 }, (_, index) => ({
    ...(index % 3 === 0 ? served : use),
    agoMs: 5_000 + Math.floor(index / 50),
    isSuccess: index % 5 !== 0,
  }))
  const used = await gateway.use(caller, history)
  const inOrder = (wanted: (settlement: Settlement) => boolean) =>
    used
      .filter(wanted)
      .map(({ requestId }) => requestId)
      .toSorted()
      .toReversed()
  const { customerId } = caller
  let refunds = 0
  /**
   * After each page, adds requests that pass the filter and refunds one request before and one after the
   * page.
   */
  const happen = async (page: number) => {
    await gateway.use(caller, [
      { ...served, agoMs: page % 900 },
      { ...use, agoMs: page % 900 },
    ])
    for (const { requestId } of [used[refunds]!, used.at(-1 - refunds)!]) {
      const refund = await refundRequest(database.pool, { customerId, requestId, amountNanos: 1n, reason: 'a test' })
      expect(refund.kind).toBe('refunded')
    }
    refunds++
  }
  // All added requests began after this.
  const period = { to: '2026-11-21T11:59:56Z' }
  for (const [query, wanted] of [
    [{}, () => true],
    [{ model: 'demo' }, ({ modelId }) => modelId === 'demo'],
    [{ success: 'false', key: caller.keyId }, ({ success }) => !success],
    [{ model: 'demo', success: 'true', provider: 'hoster' }, ({ modelId, success }) => modelId === 'demo' && success],
  ] as [object, (settlement: Settlement) => boolean][]) {
    const { ids } = await readAll(caller, { ...query, ...period, limit: '50' }, happen)
    expect(ids).toEqual(inOrder(wanted))
  }
  expect(refunds).toBeGreaterThan(80)
})

test('a page with any filters reads at most ten thousand rows, even without table statistics', async () => {
  const caller = await createRichCustomer(database.pool)
  await database.pool.query(
    `INSERT INTO usage_event (customer_id, request_id, key_id, started_at, model_id, provider, input_tokens, output_tokens, usage_source,
       input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, success, outcome)
     SELECT $1, (lpad(to_hex(extract(epoch FROM at)::bigint * 1000), 12, '0') || '7000' || '8000' || lpad(to_hex(i), 12, '0'))::uuid,
       $1, at, 'common', 'none', 0, 0, 'none', 0, 0, 0, 0, 0, 0, 1, false, 'unserved'
     FROM generate_series(1, 30000) AS i, LATERAL (SELECT timestamptz '2026-11-20T00:00:00Z' + i * interval '1 second' AS at) AS t`,
    [caller.customerId],
  )
  const explained = explaining(database.pool)
  const looking = createActivity({ sql: explained })
  let queries: Record<string, string>[] = [{}]
  for (const [name, rare, common] of [
    ['model', 'rare', 'common'],
    ['key', caller.keyId, caller.customerId],
    ['provider', 'cloud', 'none'],
    ['success', 'true', 'false'],
    ['from', '2026-11-20T05:00:00Z', '2026-11-01'],
    ['to', '2026-11-20T06:00:00Z', '2026-11-22'],
  ] as const) {
    // All rare filters together would prove no more than each of them.
    const isRare = (query: object) => Object.values(query).some(value => value === 'rare' || value === caller.keyId)
    queries = queries.flatMap(query => [
      query,
      { ...query, [name]: common },
      ...(isRare(query) ? [] : [{ ...query, [name]: rare }]),
    ])
  }
  for (const query of queries) {
    explained.rowsRead = 0
    await looking.list(caller, requestsQuery.parse(query))
    // Plus one row of each partition, to find the first.
    expect({ query, isBounded: explained.rowsRead <= 10_050 }).toEqual({ query, isBounded: true })
  }
})

test('a page of the statement reads only its own rows, however large the ledger is', async () => {
  const { customerId } = await createRichCustomer(database.pool)
  const insert = (kind: string, count: number) =>
    database.pool.query(
      `WITH tx AS (
         INSERT INTO ledger_tx (kind, ref) SELECT $2, $2 || ' ' || $1::uuid || ' ' || i FROM generate_series(1, $3::integer) AS i RETURNING tx_id
       )
       INSERT INTO ledger_entry SELECT tx_id, 'customer', $1::uuid, CASE $2 WHEN 'settle' THEN -1 ELSE 1 END FROM tx`,
      [customerId, kind, count],
    )
  await insert('credit', 2_000)
  await insert('settle', 5_000)
  await database.pool.query('ANALYZE ledger_tx, ledger_entry')
  const explained = explaining(database.pool)
  const lines = await listTransactions(explained, customerId, { limit: 50, before: null, nowEpochMs: Date.now() })
  const next = await listTransactions(explained, customerId, {
    limit: 50,
    before: lines.at(-1)!.position,
    nowEpochMs: Date.now(),
  })
  expect(new Set([...lines, ...next].map(({ position }) => position.txId)).size).toBe(100)
  // 50 entries, their transactions, and the balance. With statistics, PostgreSQL reads the few balances of this file one by one.
  expect(explained.rowsRead).toBeLessThanOrEqual(101 + 20)
})

/** Runs the statements and returns the most rows that the scans of one of them read together. */
function explaining(sql: Sql): Sql & { rowsRead: number } {
  const explained = {
    rowsRead: 0,
    async query<Row>(statement: Parameters<Sql['query']>[0], values?: readonly unknown[]) {
      const { rows } = await sql.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
        `EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) ${statement}`,
        values,
      )
      explained.rowsRead = Math.max(explained.rowsRead, rowsReadBy(rows[0]!['QUERY PLAN'][0].Plan))
      return sql.query<Row>(statement, values)
    },
  }
  return explained
}

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly PlanNode[]
}

/** Sums the rows of all scans of tables and indexes. */
function rowsReadBy(node: PlanNode): number {
  const below = (node.Plans ?? []).reduce((sum, child) => sum + rowsReadBy(child), 0)
  if (below > 0 || !node['Node Type'].endsWith('Scan')) return below
  return (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
}

test('a filter that few requests pass gets short pages and misses none', async () => {
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

test('filters narrow the list, alone and together', async () => {
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

test('a page has only the requests of its customer', async () => {
  const [one, two] = [await createRichCustomer(database.pool), await createRichCustomer(database.pool)]
  await gateway.use(one, [use, use])
  const mine = await activity.list(one, requestsQuery.parse({ limit: '1' }))
  const theirs = await activity.list(two, requestsQuery.parse({ cursor: mine.next_cursor! }))
  expect(theirs.data).toEqual([])
})
