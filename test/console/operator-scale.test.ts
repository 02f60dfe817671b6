import { expect, test } from 'vitest'
import type { Sql } from '../../src/base/db/pool.ts'
import { listCustomers } from '../../src/operator/list-customers.ts'
import { readPlatformMoney, sumPlatformDays } from '../../src/operator/platform-days.ts'
import { readOperatorUsage } from '../../src/operator/usage.ts'
import { customersQuery } from '../../src/wire/api/operator/customers.ts'
import { GROUPS_MAX, usageSpan } from '../../src/wire/api/operator/usage.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const database = useTestDatabase('file')
const CUSTOMERS = 1_000
const DAYS = 40

/** Runs every statement with EXPLAIN ANALYZE and collects how many rows of each table were read. */
function explaining(): { sql: Sql; reads: Map<string, number>; scanned: Set<string> } {
  const reads = new Map<string, number>()
  const scanned = new Set<string>()
  const visit = (node: Plan) => {
    const table = node['Relation Name']
    if (table !== undefined) {
      const rows = (node['Actual Rows'] + (node['Rows Removed by Filter'] ?? 0)) * node['Actual Loops']
      reads.set(table, (reads.get(table) ?? 0) + rows)
      if (node['Node Type'] === 'Seq Scan') scanned.add(table)
    }
    for (const child of node.Plans ?? []) visit(child)
  }
  const sql: Sql = {
    async query(statement, values) {
      const text = typeof statement === 'string' ? statement : statement.text
      const { rows } = await database.pool.query<{ 'QUERY PLAN': [{ Plan: Plan }] }>(
        `EXPLAIN (ANALYZE, FORMAT JSON) ${text}`,
        values,
      )
      visit(rows[0]!['QUERY PLAN'][0].Plan)
      return database.pool.query<never>(statement, values)
    },
  }
  return { sql, reads, scanned }
}
interface Plan {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly 'Actual Rows': number
  readonly 'Actual Loops': number
  readonly 'Rows Removed by Filter'?: number
  readonly Plans?: readonly Plan[]
}

test('the screens of operators read their page, and the sums over all customers no usage', async () => {
  const { pool } = database
  await pool.query(
    `INSERT INTO customer (customer_id, email, account_tier, created_at)
     SELECT gen_random_uuid(), 'scale-' || n || '@example.com', 'standard', now() - n * interval '1 minute' FROM generate_series(1, $1::int) n`,
    [CUSTOMERS],
  )
  await pool.query('INSERT INTO balance (customer_id) SELECT customer_id FROM customer')
  await pool.query(
    `INSERT INTO usage_day (customer_id, day, model_id, provider, node_shard, requests, successes, input_tokens, output_tokens,
       cost_nanos, hoster_share_nanos, fee_nanos, latency_ms_sum)
     SELECT customer_id, current_date - d, 'm', 'local', 1, 1, 1, 1, 1, 10, 8, 2, 1 FROM customer, generate_series(0, $1::int - 1) d`,
    [DAYS],
  )
  const nowMs = Date.now()
  await sumPlatformDays(pool, nowMs, true)
  await pool.query("SELECT sum_platform_days('-infinity')")
  await pool.query('ANALYZE')

  const list = explaining()
  const page = await listCustomers(list.sql, customersQuery.parse({}), null, nowMs)
  expect(page.data).toHaveLength(50)
  expect(page.data[0]).toMatchObject({ requests_30d: 30, spent_30d_usd: 30 * 1e-8 })
  expect(list.scanned).not.toContain('usage_day')
  expect(list.reads.get('usage_day')).toBeLessThanOrEqual(51 * 31)
  const second = explaining()
  await listCustomers(second.sql, customersQuery.parse({}), page.data.at(-1)!.id, nowMs)
  expect(second.reads.get('customer')).toBeLessThan(200)

  // Sorted by a figure: a row for each customer, and its sums by day.
  const bySpend = explaining()
  const most = await listCustomers(bySpend.sql, customersQuery.parse({ sort: 'spent' }), null, nowMs)
  expect(most.data[0]).toMatchObject({ spent_30d_usd: 30 * 1e-8 })
  expect(bySpend.reads.get('platform_customer_day')).toBeLessThanOrEqual(CUSTOMERS * DAYS)
  expect(bySpend.reads.get('usage_day')).toBeLessThanOrEqual(51 * 31)

  const overview = explaining()
  const money = await readPlatformMoney(overview.sql, nowMs)
  expect(money.payable_usd).toBeCloseTo(CUSTOMERS * DAYS * 8e-9, 9)
  expect([...overview.reads.keys()].filter(table => table.startsWith('usage_'))).toEqual([])

  const byModel = explaining()
  const span = usageSpan({ by: 'model' }, nowMs)
  expect(await readOperatorUsage(byModel.sql, span)).toMatchObject({ total: { requests: CUSTOMERS * 30 } })
  // That of the accounts of audits only, and there are none.
  expect(byModel.reads.get('usage_day')).toBe(0)
  const byCustomer = explaining()
  const day = new Date(nowMs).toISOString().slice(0, 10)
  await readOperatorUsage(byCustomer.sql, usageSpan({ by: 'customer', from: day, until: day }, nowMs))
  // A row for each customer to find the first hundred, and the usage of these.
  expect(byCustomer.reads.get('platform_customer_day')).toBe(CUSTOMERS)
  expect(byCustomer.reads.get('usage_day')).toBe(GROUPS_MAX)
})
