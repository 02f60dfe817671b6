import type { Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { type Nanos, usd } from '../base/domain/money.ts'
import { ATTEMPTS_MAX } from '../money/alerts/enqueue-deliveries.ts'
import { readLastAudit } from '../money/ledger/audit/last-audit.ts'
import type { OperatorMoney } from '../wire/api/operator/money.ts'
import { readPlatformMoney, readSummedAt } from './platform-days.ts'

/** Returns where money came from and went, by day. Reads a row for each day and model, and no usage. */
export async function readMoney(sql: Sql, nowMs: number): Promise<OperatorMoney> {
  const now = new Date(nowMs)
  const [sums, summedAt, audit, days, total, waiting, deliveries] = await Promise.all([
    readPlatformMoney(sql, nowMs),
    readSummedAt(sql),
    readLastAudit(sql),
    sql.query<DayRow & { day: string }>(DAYS, [now]),
    queryRow<DayRow>(sql, TOTAL),
    queryRow<{ count: bigint }>(sql, "SELECT count(*) FROM grant_request WHERE state = 'waiting'"),
    queryRow<{ waiting: bigint; failed: bigint }>(sql, DELIVERIES, [now, ATTEMPTS_MAX]),
  ])
  const { hoster_share_usd: _, ...all } = shown(total)
  return {
    summed_at: summedAt,
    customer_credit_usd: sums.customer_credit_usd,
    held_usd: sums.held_usd,
    payable_usd: sums.payable_usd,
    total: all,
    days: days.rows.map(row => ({ day: row.day, ...shown(row) })),
    last_audit:
      audit === undefined
        ? null
        : { at: new Date(audit.atEpochMs).toISOString(), elapsed_ms: audit.elapsedMs, violations: audit.violations },
    waiting_grants: Number(waiting.count),
    alert_deliveries: { waiting: Number(deliveries.waiting), failed: Number(deliveries.failed) },
  }
}

interface DayRow {
  readonly charged: Nanos
  readonly revenue: Nanos
  readonly share: Nanos
  readonly granted: Nanos
  readonly signup: Nanos
  readonly refunded: Nanos
  readonly writtenOff: Nanos
  readonly paid: Nanos
  readonly reversed: Nanos
}

function shown(row: DayRow) {
  return {
    charged_usd: usd(row.charged),
    revenue_usd: usd(row.revenue),
    hoster_share_usd: usd(row.share),
    granted_usd: usd(row.granted),
    signup_credit_usd: usd(row.signup),
    refunded_usd: usd(row.refunded),
    written_off_usd: usd(row.writtenOff),
    paid_usd: usd(row.paid),
    reversed_usd: usd(row.reversed),
  }
}

// Reads both tables, since a day may have usage alone or a grant alone.
const CHANGES = `
SELECT day, cost_nanos AS charged, fee_nanos AS revenue, hoster_share_nanos AS share, 0 AS granted, 0 AS signup, 0 AS refunded, 0 AS written_off,
  0 AS paid, 0 AS reversed
FROM platform_day
UNION ALL
SELECT day, 0, 0, 0, granted_nanos, signup_credit_nanos, refunded_nanos, writeoff_nanos, paid_nanos, reversed_nanos FROM platform_money_day`

const SUMS = `coalesce(sum(charged), 0)::bigint AS charged, coalesce(sum(revenue), 0)::bigint AS revenue, coalesce(sum(share), 0)::bigint AS share,
  coalesce(sum(granted), 0)::bigint AS granted, coalesce(sum(signup), 0)::bigint AS signup, coalesce(sum(refunded), 0)::bigint AS refunded,
  coalesce(sum(written_off), 0)::bigint AS "writtenOff", coalesce(sum(paid), 0)::bigint AS paid, coalesce(sum(reversed), 0)::bigint AS reversed`

const TOTAL = `SELECT ${SUMS} FROM (${CHANGES}) AS c`

const DAYS = `
SELECT to_char(d, 'YYYY-MM-DD') AS day, ${SUMS}
FROM (SELECT c.*, c.day AS d FROM (${CHANGES}) AS c WHERE c.day > ($1::timestamptz AT TIME ZONE 'UTC')::date - 90) AS c
GROUP BY d ORDER BY d DESC`

const DELIVERIES = `
SELECT count(*) FILTER (WHERE attempts < $2) AS waiting, count(*) FILTER (WHERE attempts >= $2) AS failed
FROM (
  SELECT (SELECT count(*) FROM alert_delivery d WHERE d.alert_id = a.alert_id) AS attempts
  FROM alert a WHERE created_at > $1::timestamptz - interval '7 days' AND delivered_at IS NULL
) AS undelivered`
