import { randomUUID } from 'node:crypto'
import { beforeAll, expect, test } from 'vitest'
import type { Sql } from '../../src/base/db/pool.ts'
import { latencyReportOf } from '../../src/money/usage/latency-report.ts'
import { listRequests } from '../../src/money/usage/list-requests.ts'
import { usageSharesOf } from '../../src/money/usage/usage-shares.ts'
import { requestsQuery } from '../../src/wire/api/activity.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { createRichCustomer } from '../usage/customer.ts'

// What the screens of a customer read must not grow with the requests, nor with the other customers.
const database = useTestDatabase()
const REQUESTS = 30_000
const DAYS = 400
const KEYS = 5
const nowMs = Date.parse('2026-11-20T12:00:00Z')
let customerId: string

beforeAll(async () => {
  const { pool } = database
  customerId = (await createRichCustomer(pool)).customerId
  await pool.query(
    `INSERT INTO usage_event (customer_id, request_id, started_at, model_id, provider, input_tokens, output_tokens, usage_source,
       input_pico_per_token, output_pico_per_token, hold_nanos, cost_nanos, hoster_share_nanos, fee_nanos, latency_ms, first_token_ms,
       success, outcome)
     SELECT $1, (lpad(to_hex($2::bigint + i * 1000), 12, '0') || '70008000000000000000')::uuid, to_timestamp($2 / 1000.0 + i), 'm' || i % 20,
       'local', 1, 1, 'none', 0, 0, 0, 0, 0, 0, 1, 1, true, 'served'
     FROM generate_series(1, $3::integer) i`,
    [customerId, nowMs - REQUESTS * 1000, REQUESTS],
  )
  // This customer, and two hundred others of which each has used one key.
  const insertDays = (ofCustomer: string, keys: number, days: number) =>
    pool.query(
      `INSERT INTO usage_key_day (customer_id, key_id, day, node_shard, requests, cost_nanos)
       SELECT $1, ('00000000-0000-4000-8000-' || lpad(k::text, 12, '0'))::uuid, date '2026-11-20' - d, 0, 1, 1
       FROM generate_series(1, $2::integer) k, generate_series(0, $3::integer - 1) d`,
      [ofCustomer, keys, days],
    )
  await insertDays(customerId, KEYS, DAYS)
  for (let other = 0; other < 200; other++) await insertDays(randomUUID(), 1, 30)
  await pool.query(
    `INSERT INTO usage_day (customer_id, day, model_id, provider, node_shard, requests, successes, input_tokens, output_tokens, cost_nanos,
       hoster_share_nanos, fee_nanos, latency_ms_sum)
     SELECT $1, date '2026-11-20' - d, 'm' || m, 'local', 0, 1, 1, 1, 1, 1, 0, 1, 1
     FROM generate_series(1, 20) m, generate_series(0, $2::integer - 1) d`,
    [customerId, DAYS],
  )
  await pool.query('ANALYZE usage_event, usage_key_day, usage_day')
})

/** Runs the statements and counts the rows that scans of tables return and filter out. */
function explaining(sql: Sql): Sql & { rowsRead: number } {
  const explained = {
    rowsRead: 0,
    async query<Row>(statement: Parameters<Sql['query']>[0], values?: readonly unknown[]) {
      const { rows } = await sql.query<{ 'QUERY PLAN': [{ Plan: PlanNode }] }>(
        `EXPLAIN (ANALYZE, TIMING off, FORMAT JSON) ${statement}`,
        values,
      )
      explained.rowsRead += rowsReadBy(rows[0]!['QUERY PLAN'][0].Plan)
      return sql.query<Row>(statement, values)
    },
  }
  return explained
}

interface PlanNode {
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly PlanNode[]
}

function rowsReadBy(node: PlanNode): number {
  const own =
    node['Relation Name'] === undefined
      ? 0
      : (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
  return (node.Plans ?? []).reduce((total, plan) => total + rowsReadBy(plan), own)
}

test.each<[string, rowsMax: number, read: (sql: Sql) => Promise<unknown>]>([
  ['latency', 1_000, sql => latencyReportOf(sql, customerId)],
  ['a page of activity', 101, sql => listRequests(sql, customerId, requestsQuery.parse({ limit: '100' }))],
  [
    'a page that no request passes',
    // The filter, and the end of the search along the index.
    20_000,
    sql => listRequests(sql, customerId, requestsQuery.parse({ outcome: 'unserved' })),
  ],
  [
    'usage by key of a week',
    7 * KEYS,
    sql => usageSharesOf(sql, customerId, 'key', { days: 7, interval: 'day', series: 3 }, nowMs),
  ],
  [
    'usage by model of a week',
    7 * 20,
    sql => usageSharesOf(sql, customerId, 'model', { days: 7, interval: 'day', series: 3 }, nowMs),
  ],
])('%s reads at most %i rows', async (_name, rowsMax, read) => {
  const explained = explaining(database.pool)
  await read(explained)
  expect(explained.rowsRead).toBeLessThanOrEqual(rowsMax)
})
