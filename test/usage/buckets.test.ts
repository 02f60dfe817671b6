import { describe, expect, test } from 'vitest'
import { useTestDatabase } from '../harness/use-test-app.ts'
import { createRichCustomer } from './customer.ts'
import { createTestGateway, useTestGateway } from './test-gateway.ts'
import type { Use } from './usage.ts'

const database = useTestDatabase()
const gateway = useTestGateway(database)

const HOUR_MS = 3_600_000
const use: Use = {
  agoMs: 0,
  modelId: 'demo',
  provider: 'local',
  hoster: 0,
  inputTokens: 10,
  outputTokens: 3,
  inputPicoPerToken: 150_000n,
  outputPicoPerToken: 600_000n,
  latencyMs: 100,
  isSuccess: true,
}

describe('every bucket of the period is listed, even without usage', () => {
  test.each([
    // 2028-03-01 is a Wednesday; 2028 is a leap year.
    {
      now: '2028-03-01T05:00:00Z',
      days: 1,
      interval: 'hour',
      count: 24,
      first: '2028-03-01T00',
      last: '2028-03-01T23',
    },
    { now: '2028-03-01T05:00:00Z', days: 2, interval: 'day', count: 2, first: '2028-02-29T00', last: '2028-03-01T00' },
    { now: '2028-03-01T05:00:00Z', days: 1, interval: 'week', count: 1, first: '2028-02-28T00', last: '2028-02-28T00' },
    { now: '2028-03-01T05:00:00Z', days: 4, interval: 'week', count: 2, first: '2028-02-21T00', last: '2028-02-28T00' },
    {
      now: '2028-03-01T05:00:00Z',
      days: 31,
      interval: 'month',
      count: 3,
      first: '2028-01-01T00',
      last: '2028-03-01T00',
    },
    {
      now: '2028-03-01T05:00:00Z',
      days: 365,
      interval: 'month',
      count: 13,
      first: '2027-03-01T00',
      last: '2028-03-01T00',
    },
    {
      now: '2028-03-01T05:00:00Z',
      days: 365,
      interval: 'hour',
      count: 8760,
      first: '2027-03-03T00',
      last: '2028-03-01T23',
    },
    {
      now: '2026-12-31T23:59:59Z',
      days: 365,
      interval: 'month',
      count: 12,
      first: '2026-01-01T00',
      last: '2026-12-01T00',
    },
    // Most time zones changed their clocks within this period.
    {
      now: '2026-11-21T12:00:00Z',
      days: 30,
      interval: 'day',
      count: 30,
      first: '2026-10-23T00',
      last: '2026-11-21T00',
    },
  ] as const)('$days days by $interval on $now: $count', async ({ now, days, interval, count, first, last }) => {
    gateway.travel(now)
    const caller = await createRichCustomer(database.pool)
    const { timeseries, ...rest } = await gateway.reports.tokens(caller, days, interval)
    expect(rest).toEqual({
      period_days: days,
      interval,
      totals: { input_tokens: 0, output_tokens: 0, total_tokens: 0, cost_usd: 0, refunded_usd: 0, requests: 0 },
    })
    expect(timeseries.length).toBe(count)
    expect(timeseries[0]).toEqual({
      period: `${first}:00:00+00:00`,
      input_tokens: 0,
      output_tokens: 0,
      total_tokens: 0,
      cost_usd: 0,
      requests: 0,
      local_requests: 0,
      hoster_requests: 0,
      cloud_requests: 0,
      avg_latency_ms: 0,
    })
    expect(timeseries.at(-1)!.period).toBe(`${last}:00:00+00:00`)
  })

  test.each(['UTC', 'America/New_York', 'Pacific/Kiritimati'])(
    'a session in the time zone %s gives the same buckets',
    async zone => {
      gateway.travel('2026-11-21T12:00:00Z')
      const caller = await createRichCustomer(database.pool)
      await gateway.use(caller, [{ ...use, agoMs: 13 * HOUR_MS }])
      const client = await database.pool.pg.connect()
      try {
        await client.query(`SET TIME ZONE '${zone}'`)
        const inZone = createTestGateway(database, {
          query: (statement, values) => client.query(String(statement), [...(values ?? [])]) as never,
        })
        inZone.travel('2026-11-21T12:00:00Z')
        const { timeseries } = await inZone.reports.tokens(caller, 2, 'day')
        expect(timeseries.map(bucket => bucket.period)).toEqual([
          '2026-11-20T00:00:00+00:00',
          '2026-11-21T00:00:00+00:00',
        ])
        expect(timeseries.map(bucket => Number(bucket.requests))).toEqual([1, 0])
        expect((await inZone.reports.breakdown(caller, 2)).daily.map(day => day.date)).toEqual([
          '2026-11-20',
          '2026-11-21',
        ])
      } finally {
        client.release(true)
      }
    },
  )
})

test('a week or month that began before the period counts only days of the period', async () => {
  gateway.travel('2028-03-01T05:00:00Z')
  const caller = await createRichCustomer(database.pool)
  // Tuesday, inside; Monday of the same week, outside.
  await gateway.use(caller, [
    { ...use, agoMs: 10 * HOUR_MS },
    { ...use, agoMs: 34 * HOUR_MS },
  ])
  const { timeseries, totals } = await gateway.reports.tokens(caller, 2, 'week')
  expect(timeseries).toMatchObject([{ period: '2028-02-28T00:00:00+00:00', requests: 1 }])
  expect(totals.requests).toBe(1)
})

test('requests are counted by provider, and failures do not affect the latency', async () => {
  gateway.travel('2026-11-21T12:00:00Z')
  const caller = await createRichCustomer(database.pool)
  await gateway.use(caller, [
    { ...use, latencyMs: 100 },
    { ...use, latencyMs: 201 },
    { ...use, provider: 'hoster', latencyMs: 100 },
    { ...use, provider: 'cloud', latencyMs: 9_000, isSuccess: false },
    { ...use, provider: 'none', latencyMs: 9_000 },
  ])
  const { timeseries } = await gateway.reports.tokens(caller, 1, 'day')
  expect(timeseries).toMatchObject([
    { requests: 5, local_requests: 2, hoster_requests: 1, cloud_requests: 1, avg_latency_ms: 133.667 },
  ])
  const { by_model } = await gateway.reports.breakdown(caller, 1)
  expect(by_model.map(row => [row.provider, row.requests, row.avg_latency_ms])).toEqual([
    ['local', 2, 150.5],
    ['cloud', 1, 0],
    ['hoster', 1, 100],
    ['none', 1, 0],
  ])
})

test('the summary shows the limits, and never a negative rest', async () => {
  gateway.travel('2026-11-21T12:00:00Z')
  const caller = await createRichCustomer(database.pool)
  await gateway.use(caller, [use])
  const summary = await gateway.reports.summary({ ...caller, limits: { ...caller.limits, requestsPerDay: 40 } })
  expect(summary).toEqual({
    customer: caller.email,
    tier: 'free',
    credit_balance_usd: 999_999.9999967,
    rate_limits: {
      requests_this_minute: 3,
      requests_today: 41,
      limit_per_minute: 20,
      limit_per_day: 40,
      remaining_this_minute: 17,
      remaining_today: 0,
    },
    usage_30d: {
      total_requests: 1,
      total_input_tokens: 10,
      total_output_tokens: 3,
      total_cost_microdollars: 3,
      refunded_usd: 0,
      avg_latency_ms: 100,
    },
  })
})

test('a customer never sees the usage of another', async () => {
  gateway.travel('2026-11-21T12:00:00Z')
  const owner = await createRichCustomer(database.pool)
  const stranger = await createRichCustomer(database.pool)
  await gateway.use(owner, [use, use, use])
  expect((await gateway.reports.summary(stranger)).usage_30d.total_requests).toBe(0)
  expect((await gateway.reports.tokens(stranger, 365, 'hour')).totals.requests).toBe(0)
  expect((await gateway.reports.breakdown(stranger, 365)).by_model).toEqual([])
  expect((await gateway.exportText(stranger, 365)).split('\r\n')).toHaveLength(2)
})
