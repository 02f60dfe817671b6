import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Caller } from '../../src/base/domain/caller.ts'
import { microdollars, parseUsd, usd } from '../../src/base/domain/money.ts'
import { refundRequest } from '../../src/money/ledger/accounts/refund-request.ts'
import type { Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import { type CreditTransactions, transactionsQuery } from '../../src/wire/api/credits.ts'
import { intervals, readQuery, type UsageBreakdown } from '../../src/wire/api/reports.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { createRichCustomer, RICH_NANOS } from './customer.ts'
import { parseCsv } from './parse-csv.ts'
import { useTestGateway } from './test-gateway.ts'
import { arbitraryUse, type Use } from './usage.ts'

const database = useTestDatabase()
const gateway = useTestGateway(database)

const DAY_MS = 86_400_000

describe('the sums of all reports agree to the nano-USD', () => {
  test.each([
    { now: '2028-03-01T00:00:00.000Z', why: 'first instant after a leap day' },
    { now: '2028-02-29T23:59:59.999Z', why: 'last instant of a leap day' },
    { now: '2026-01-01T00:30:00.000Z', why: 'new year' },
    { now: '2027-01-03T12:00:00.000Z', why: 'a Sunday in a week that began last year' },
    { now: '2026-11-21T09:09:55.120Z', why: 'any day' },
  ])('$now, $why', async ({ now }) => {
    gateway.travel(now)
    const caller = await createRichCustomer(database.pool)
    const nowMs = Date.parse(now)
    const used = await gateway.use(caller, fc.sample(arbitraryUse(), { numRuns: 250, seed: nowMs / 1000 }))
    const parts = fc.sample(arbitraryRefund, { numRuns: 250, seed: nowMs / 1000 })
    const refunds = await refundSome(caller, used, parts)
    for (const days of [1, 2, 30, 31, 366 - 1]) await expectOneSum(caller, days, refundedSince(refunds, nowMs, days))
    await expectOneAccount(caller, used, refunds)
  })

  test('for any usage over any period', async () => {
    const epochMs = fc.integer({ min: Date.parse('2026-01-01T00:00Z'), max: Date.parse('2030-01-01T00:00Z') })
    const property = fc.asyncProperty(
      epochMs,
      fc.integer({ min: 1, max: 365 }),
      fc.array(fc.tuple(arbitraryUse(), arbitraryRefund), { maxLength: 40 }),
      async (nowMs, days, history) => {
        gateway.travel(new Date(nowMs).toISOString())
        const caller = await createRichCustomer(database.pool)
        const used = await gateway.use(
          caller,
          history.map(([use]) => use),
        )
        const refunds = await refundSome(
          caller,
          used,
          history.map(([, part]) => part),
        )
        await expectOneSum(caller, days, refundedSince(refunds, nowMs, days))
        await expectOneAccount(caller, used, refunds)
      },
    )
    await fc.assert(property, { numRuns: 25, seed: 20281124 })
  })
})

test('the reports and the ledger have the same usage', async () => {
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
  expect(nanosOf(report.totals.cost_usd)).toBe(await customerNanos(caller, 'settle'))
})

/** Checks that all reports over the same days agree, and for 365 days also the ledger, if no use is older. */
async function expectOneSum(caller: Caller, days: number, refunded: bigint): Promise<void> {
  const { reports } = gateway
  const byInterval = await Promise.all(intervals.map(interval => reports.tokens(caller, days, interval)))
  const { totals } = byInterval[0]!
  const rows = parseCsv(await gateway.exportText(caller, days)).slice(1)
  const breakdown = await reports.breakdown(caller, days)
  expect(nanosOf(totals.refunded_usd)).toBe(refunded)

  for (const report of byInterval) {
    const buckets = report.timeseries
    expect({ interval: report.interval, ...report.totals }).toEqual({ interval: report.interval, ...totals })
    expect({
      input_tokens: sumOf(buckets, bucket => bucket.input_tokens),
      output_tokens: sumOf(buckets, bucket => bucket.output_tokens),
      total_tokens: sumOf(buckets, bucket => bucket.total_tokens),
      cost_usd: usd(sumNanos(buckets, bucket => nanosOf(bucket.cost_usd))),
      refunded_usd: totals.refunded_usd,
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
      refunded_usd: totals.refunded_usd,
    })
    expect(nanosOf(credit_balance_usd)).toBe(
      RICH_NANOS - (await customerNanos(caller, 'settle')) + (await customerNanos(caller, 'refund')),
    )
  }
}

interface RefundedUse {
  readonly startedAtEpochMs: number
  readonly amountNanos: bigint
}

/** The refunded part of a charge in thousandths: most requests are never refunded. */
const arbitraryRefund = fc.constantFrom(0n, 0n, 0n, 1n, 333n, 999n, 1_000n)

/** Refunds the given part of each request with a cost. */
async function refundSome(
  { customerId }: Caller,
  used: readonly Settlement[],
  parts: readonly bigint[],
): Promise<RefundedUse[]> {
  const refunds = used
    .map(({ requestId, startedAtEpochMs, costNanos }, i) => ({
      requestId,
      startedAtEpochMs,
      amountNanos: (costNanos * parts[i]! + 999n) / 1_000n,
    }))
    .filter(({ amountNanos }) => amountNanos > 0n)
  for (const { requestId, amountNanos } of refunds) {
    const result = await refundRequest(database.pool, { customerId, requestId, amountNanos, reason: 'a test' })
    expect(result.kind).toBe('refunded')
  }
  return refunds
}

/** Sums the requests that began in the last `days` UTC days. */
function refundedSince(refunds: readonly RefundedUse[], nowMs: number, days: number): bigint {
  const fromMs = (Math.floor(nowMs / DAY_MS) + 1 - days) * DAY_MS
  return refunds
    .filter(refund => refund.startedAtEpochMs >= fromMs)
    .reduce((sum, refund) => sum + refund.amountNanos, 0n)
}

/** Checks that credit, statement and ledger agree over the whole life of the account for any page size. */
async function expectOneAccount(
  caller: Caller,
  used: readonly Settlement[],
  refunds: readonly RefundedUse[],
): Promise<void> {
  const { creditReports, reports } = gateway
  const credits = await creditReports.credits(caller)
  const spent = used.reduce((sum, { costNanos }) => sum + costNanos, 0n)
  const refunded = refunds.reduce((sum, { amountNanos }) => sum + amountNanos, 0n)
  expect(await customerNanos(caller, 'settle')).toBe(spent)
  expect(await customerNanos(caller, 'refund')).toBe(refunded)
  expect(credits).toEqual({
    balance_usd: usd(RICH_NANOS - spent + refunded),
    granted_usd: usd(RICH_NANOS),
    spent_usd: usd(spent),
    refunded_usd: usd(refunded),
    debt_usd: 0,
    held_usd: 0,
  })
  expect((await reports.summary(caller)).credit_balance_usd).toBe(credits.balance_usd)

  const lines = await statement(caller, 100)
  expect(await statement(caller, 7)).toEqual(lines)
  expect(lines.map(line => line.at)).toEqual(
    lines
      .map(line => line.at)
      .toSorted()
      .toReversed(),
  )
  const nanosOfKind = (kind: string) =>
    sumNanos(
      lines.filter(line => line.kind === kind),
      line => nanosOf(line.amount_usd),
    )
  expect([nanosOfKind('signup_credit'), nanosOfKind('usage'), nanosOfKind('refund')]).toEqual([
    RICH_NANOS,
    -spent,
    refunded,
  ])
  expect(lines.filter(line => line.kind === 'refund')).toHaveLength(refunds.length)
  const daily = new Map((await reports.breakdown(caller, 365)).daily.map(day => [day.date, day]))
  for (const line of lines.filter(line => line.kind === 'usage')) {
    const day = daily.get(line.at.slice(0, 10))
    // The oldest uses are older than the longest period of a report.
    if (day !== undefined) expect([-line.amount_usd, line.requests]).toEqual([day.cost_usd, day.requests])
  }
}

async function statement(caller: Caller, limit: number): Promise<CreditTransactions['data']> {
  const lines: CreditTransactions['data'] = []
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const query = readQuery(transactionsQuery, { limit: String(limit), ...(cursor !== undefined && { cursor }) })
    const page = await gateway.creditReports.transactions(caller, query)
    expect(page.data.length).toBeLessThanOrEqual(limit)
    lines.push(...page.data)
    cursor = page.next_cursor
  }
  return lines
}

type Costs = Omit<UsageBreakdown['daily'][number], 'date' | 'total_tokens'>

/** Sums the customer's ledger entries of a kind. */
async function customerNanos({ customerId }: Caller, kind: 'settle' | 'refund'): Promise<bigint> {
  const { rows } = await database.pool.query<{ moved: bigint }>(
    `SELECT abs(coalesce(sum(amount_nanos), 0))::bigint AS moved
       FROM ledger_entry JOIN ledger_tx USING (tx_id)
      WHERE account_kind = 'customer' AND account_id = $1 AND kind = $2`,
    [customerId, kind],
  )
  return rows[0]!.moved
}

/** Exact for amounts below 9 million USD: their nano-USD fit into a double. */
const nanosOf = (amountUsd: number) => BigInt(Math.round(amountUsd * 1e9))
const sumOf = <T>(list: readonly T[], count: (item: T) => number) => list.reduce((sum, item) => sum + count(item), 0)
const sumNanos = <T>(list: readonly T[], nanos: (item: T) => bigint) =>
  list.reduce((sum, item) => sum + nanos(item), 0n)
