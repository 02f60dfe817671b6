import type { Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import { type Nanos, usd } from '../base/domain/money.ts'

const NAME = 'platform_days_summed'
/** A journal that a node left behind may be settled days later. */
const NIGHTLY_DAYS = 30

/**
 * Writes the sums over all customers: for today and yesterday, or from the day before the last call, if that was longer ago.
 * `isNightly` sums the last 30 days. Run it in a transaction.
 */
export async function sumPlatformDays(sql: Sql, nowMs: number, isNightly = false): Promise<void> {
  const lastMs = Date.parse((await readSummedAt(sql)) ?? '') || nowMs
  const fromMs = isNightly ? nowMs - NIGHTLY_DAYS * DAY_MS : Math.min(nowMs, lastMs) - DAY_MS
  const from = [new Date(fromMs)]
  await sql.query("SELECT sum_platform_days(($1::timestamptz AT TIME ZONE 'UTC')::date)", from)
  await sql.query("SELECT sum_customer_days(($1::timestamptz AT TIME ZONE 'UTC')::date)", from)
  await sql.query(
    'INSERT INTO installation (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value',
    [NAME, new Date(nowMs).toISOString()],
  )
}

/** Returns when the sums were last written (ISO 8601); null before the first time. */
export async function readSummedAt(sql: Sql): Promise<string | null> {
  const { rows } = await sql.query<{ value: string }>('SELECT value FROM installation WHERE name = $1', [NAME])
  return rows[0]?.value ?? null
}

/** Returns the sums of the UTC day of `nowMs`, and those over all days that the overview shows. */
export async function readPlatformMoney(sql: Sql, nowMs: number) {
  const row = await queryRow<Record<PlatformSum, Nanos> & { requests: bigint; failed: bigint }>(sql, SUMS, [
    new Date(nowMs),
  ])
  return {
    today: {
      revenue_usd: usd(row.revenue),
      charged_usd: usd(row.charged),
      requests: Number(row.requests),
      failed: Number(row.failed),
      granted_usd: usd(row.granted),
      refunded_usd: usd(row.refunded),
      written_off_usd: usd(row.writtenOff),
    },
    held_usd: usd(row.held),
    customer_credit_usd: usd(row.credit),
    payable_usd: usd(row.payable),
    written_off_30d_usd: usd(row.writtenOff30),
  }
}

type PlatformSum =
  | 'revenue'
  | 'charged'
  | 'granted'
  | 'refunded'
  | 'writtenOff'
  | 'writtenOff30'
  | 'held'
  | 'credit'
  | 'payable'

// Reads a row for each day and model, each open lease and each customer, and no usage.
const SUMS = `
WITH t AS (SELECT ($1::timestamptz AT TIME ZONE 'UTC')::date AS today),
  day AS (
    SELECT coalesce(sum(fee_nanos), 0)::bigint AS revenue, coalesce(sum(cost_nanos), 0)::bigint AS charged,
      coalesce(sum(requests), 0)::bigint AS requests, coalesce(sum(requests - successes), 0)::bigint AS failed
    FROM platform_day, t WHERE day = today
  ),
  money AS (
    SELECT coalesce(sum(granted_nanos) FILTER (WHERE day = today), 0)::bigint AS granted,
      coalesce(sum(refunded_nanos) FILTER (WHERE day = today), 0)::bigint AS refunded,
      coalesce(sum(writeoff_nanos) FILTER (WHERE day = today), 0)::bigint AS "writtenOff",
      coalesce(sum(writeoff_nanos) FILTER (WHERE day > today - 30), 0)::bigint AS "writtenOff30",
      coalesce(sum(refunded_share_nanos), 0)::bigint AS taken_back
    FROM platform_money_day, t
  ),
  earned AS (SELECT coalesce(sum(hoster_share_nanos), 0)::bigint AS shares FROM platform_day),
  -- Charges of bulk leases since their last fold are spent: see readBalance.
  leases AS (
    SELECT coalesce(sum(granted_nanos - settled_nanos), 0)::bigint AS held, coalesce(sum(settled_nanos), 0)::bigint AS settled FROM lease
  ),
  -- Payouts, moves and claw-backs.
  moved AS (SELECT coalesce(sum(amount_nanos), 0)::bigint AS moved FROM hoster_movement),
  balances AS (SELECT coalesce(sum(posted_nanos), 0)::bigint AS posted FROM balance)
SELECT day.*, granted, refunded, "writtenOff", "writtenOff30", shares - taken_back + moved AS payable, held, posted - settled AS credit
FROM day, money, earned, moved, leases, balances`
