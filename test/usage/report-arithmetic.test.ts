import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Caller } from '../../src/domain/caller.ts'
import { microdollars, parseUsd, usd } from '../../src/domain/money.ts'
import { intervals, type UsageBreakdown } from '../../src/wire/reports.ts'
import { createTestDatabase, type TestDatabase } from '../harness/database.ts'
import { createRichCustomer, RICH_NANOS } from './customer.ts'
import { parseCsv } from './parse-csv.ts'
import { createTestGateway, type TestGateway } from './test-gateway.ts'
import { arbitraryUse, type Use } from './usage.ts'

let database: TestDatabase
let gateway: TestGateway
beforeAll(async () => {
  database = await createTestDatabase()
  gateway = createTestGateway(database)
})
afterAll(() => database.drop())

const DAY_MS = 86_400_000

describe('the sums of all reports are one number, to the nano-USD', () => {
  test.each([
    { now: '2028-03-01T00:00:00.000Z', why: 'first instant after a leap day' },
    { now: '2028-02-29T23:59:59.999Z', why: 'last instant of a leap day' },
    { now: '2026-01-01T00:30:00.000Z', why: 'new year' },
    { now: '2027-01-03T12:00:00.000Z', why: 'a Sunday in a week that began last year' },
    { now: '2026-11-21T09:09:55.120Z', why: 'any day' },
  ])('$now, $why', async ({ now }) => {
    gateway.travel(now)
    const caller = await createRichCustomer(database.pool)
    await gateway.use(caller, fc.sample(arbitraryUse(), { numRuns: 250, seed: Date.parse(now) / 1000 }))
    for (const days of [1, 2, 30, 31, 366 - 1]) await expectOneSum(caller, days)
  })

  test('whatever was used, whenever, over any period', async () => {
    const epochMs = fc.integer({ min: Date.parse('2026-01-01T00:00Z'), max: Date.parse('2030-01-01T00:00Z') })
    const property = fc.asyncProperty(
      epochMs,
      fc.integer({ min: 1, max: 365 }),
      fc.array(arbitraryUse(), { maxLength: 40 }),
      async (nowMs, days, uses) => {
        gateway.travel(new Date(nowMs).toISOString())
        const caller = await createRichCustomer(database.pool)
        await gateway.use(caller, uses)
        await expectOneSum(caller, days)
      },
    )
    await fc.assert(property, { numRuns: 25, seed: 20281124 })
  })
})

test('what was used is in the reports, and the ledger took as much', async () => {
  gateway.travel('2028-03-01T10:00:00.000Z')
  const caller = await createRichCustomer(database.pool)
  const uses = fc.sample(arbitraryUse(300 * DAY_MS), { numRuns: 200, seed: 7 })
  await gateway.use(caller, uses)
  const report = await gateway.reports.tokens(caller, 365, 'month')
  const served = uses.filter(use => use.provider !== 'none')
  const sum = (count: (use: Use) => number) => served.reduce((total, use) => total + count(use), 0)
  expect(report.totals).toMatchObject({
    requests: 200,
    input_tokens: sum(use => use.inputTokens),
    output_tokens: sum(use => use.outputTokens),
  })
  expect(nanosOf(report.totals.cost_usd)).toBe(await chargedNanos(caller))
})

/** Everything over the same days says the same; over 365 days of use no older than that, the ledger says it too. */
async function expectOneSum(caller: Caller, days: number): Promise<void> {
  const { reports } = gateway
  const byInterval = await Promise.all(intervals.map(interval => reports.tokens(caller, days, interval)))
  const { totals } = byInterval[0]!
  const rows = parseCsv(await gateway.exportText(caller, days)).slice(1)
  const breakdown = await reports.breakdown(caller, days)

  for (const report of byInterval) {
    const buckets = report.timeseries
    expect({ interval: report.interval, ...report.totals }).toEqual({ interval: report.interval, ...totals })
    expect({
      input_tokens: sumOf(buckets, bucket => bucket.input_tokens),
      output_tokens: sumOf(buckets, bucket => bucket.output_tokens),
      total_tokens: sumOf(buckets, bucket => bucket.total_tokens),
      cost_usd: usd(sumNanos(buckets, bucket => nanosOf(bucket.cost_usd))),
      requests: sumOf(buckets, bucket => bucket.requests),
    }).toEqual(totals)
    const unserved = rows.filter(row => row[2] === 'none').length
    expect(sumOf(buckets, b => b.local_requests + b.hoster_requests + b.cloud_requests) + unserved).toBe(
      totals.requests,
    )
  }
  const lists: readonly Costs[][] = [
    breakdown.by_model.map(row => ({ ...row, cost_usd: row.total_cost_usd })),
    breakdown.daily,
  ]
  for (const list of lists) {
    expect(sumOf(list, row => row.requests)).toBe(totals.requests)
    expect(sumOf(list, row => row.input_tokens)).toBe(totals.input_tokens)
    expect(sumOf(list, row => row.output_tokens)).toBe(totals.output_tokens)
    expect(usd(sumNanos(list, row => nanosOf(row.cost_usd)))).toBe(totals.cost_usd)
    for (const row of list)
      expect(nanosOf(row.platform_fee_usd) + nanosOf(row.hoster_earned_usd)).toBe(nanosOf(row.cost_usd))
  }
  expect(rows.length).toBe(totals.requests)
  expect(sumOf(rows, row => Number(row[5]))).toBe(totals.total_tokens)
  expect(usd(sumNanos(rows, row => parseUsd(row[6]!)!))).toBe(totals.cost_usd)

  if (days === 30) {
    const { usage_30d, credit_balance_usd } = await reports.summary(caller)
    expect(usage_30d).toMatchObject({
      total_requests: totals.requests,
      total_input_tokens: totals.input_tokens,
      total_output_tokens: totals.output_tokens,
      total_cost_microdollars: microdollars(nanosOf(totals.cost_usd)),
    })
    expect(nanosOf(credit_balance_usd)).toBe(RICH_NANOS - (await chargedNanos(caller)))
  }
}

type Costs = Omit<UsageBreakdown['daily'][number], 'date' | 'total_tokens'>

/** What the customer's ledger entries say was charged, ever. */
async function chargedNanos({ customerId }: Caller): Promise<bigint> {
  const { rows } = await database.pool.query<{ charged: bigint }>(
    `SELECT -coalesce(sum(amount_nanos), 0)::bigint AS charged
       FROM ledger_entry JOIN ledger_tx USING (tx_id)
      WHERE account_kind = 'customer' AND account_id = $1 AND kind = 'settle'`,
    [customerId],
  )
  return rows[0]!.charged
}

/** Exact for amounts below 9 million USD, whose nano-USD a double can count. */
const nanosOf = (amountUsd: number) => BigInt(Math.round(amountUsd * 1e9))
const sumOf = <T>(list: readonly T[], count: (item: T) => number) => list.reduce((sum, item) => sum + count(item), 0)
const sumNanos = <T>(list: readonly T[], nanos: (item: T) => bigint) =>
  list.reduce((sum, item) => sum + nanos(item), 0n)
