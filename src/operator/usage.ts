import type { Sql } from '../base/db/pool.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import { type Nanos, usd, usdText } from '../base/domain/money.ts'
import { csvRecord } from '../base/runtime/csv.ts'
import { emailOrNull } from '../money/accounts/customers.ts'
import { meanLatencyMs } from '../money/usage/report-figures.ts'
import { GROUPS_MAX, type OperatorUsage, operatorUsageColumns, type UsageSpan } from '../wire/api/operator/usage.ts'
import { readSummedAt } from './platform-days.ts'
import {
  CORRECTED_CUSTOMERS,
  CORRECTIONS,
  type Correction,
  type DayRow,
  daysSql,
  type Figures,
  type GroupRow,
  groupsSql,
  hasTokens,
  lacksOf,
  TOP_CUSTOMERS,
  tableOf,
} from './usage-statements.ts'

/**
 * Returns the usage of all customers, or of one, by day and by `span.by`. Without a customer, days, models, providers
 * and customers come from sums that are up to a minute old; the rest is read along the days of usage_day, usage_key_day
 * or usage_label_day.
 */
export async function readOperatorUsage(sql: Sql, span: UsageSpan): Promise<OperatorUsage> {
  const values = [span.from, span.until, span.customer, span.model, span.provider]
  const table = tableOf(span)
  // The sums of all customers are the same in platform_day, and a thousand times fewer rows.
  const daysTable = span.customer === null ? 'platform_day' : table
  const isCorrected = hasCorrections(span)
  const isRanked = span.by === 'customer' && isCorrected
  const [days, groups, summedAt, corrections] = await Promise.all([
    sql.query<DayRow>(daysSql[daysTable], values),
    isRanked
      ? sql.query<GroupRow>(TOP_CUSTOMERS, [span.from, span.until, GROUPS_MAX])
      : sql.query<GroupRow>(groupsSql(table, span), [...values, GROUPS_MAX]),
    daysTable === 'platform_day' ? readSummedAt(sql) : null,
    isCorrected ? sql.query<Correction>(CORRECTIONS, [span.from, span.until]) : null,
  ])
  // Keys, members and labels have no tokens.
  const earned = withCorrections(days.rows, corrections?.rows ?? [])
  const byDay = hasTokens(table) ? earned : earned.map(row => ({ ...row, ...lacksOf(table) }))
  const total = byDay.reduce(
    (sum, row) => ({
      requests: sum.requests + row.requests,
      cost: sum.cost + row.cost,
      failed: add(sum.failed, row.failed),
      input: add(sum.input, row.input),
      output: add(sum.output, row.output),
      fee: add(sum.fee, row.fee),
      upstream: add(sum.upstream, row.upstream),
      uncosted: add(sum.uncosted, row.uncosted),
      latencyMs: add(sum.latencyMs, row.latencyMs),
    }),
    { ...NO_FIGURES, ...lacksOf(table) },
  )
  const listed = groups.rows.reduce(
    (sum, row) => ({ requests: sum.requests + row.requests, cost: sum.cost + row.cost }),
    { requests: 0n, cost: 0n },
  )
  const [first] = groups.rows
  return {
    from: span.from,
    until: span.until,
    by: span.by,
    summed_at: summedAt,
    total: shown(total),
    days: byDay.map(row => ({ day: row.day, ...shown(row) })),
    groups: groups.rows.map(row => ({ id: row.id, name: nameOf(row), customer_id: row.customerId, ...shown(row) })),
    other: {
      groups: Number(first?.allGroups ?? 0n) - groups.rows.length,
      requests: Number((first?.allRequests ?? 0n) - listed.requests),
      charged_usd: usd((first?.allCost ?? 0n) - listed.cost),
    },
  }
}

/** Refunds and audits have no models and providers in the sums. */
function hasCorrections({ customer, model, provider }: UsageSpan): boolean {
  return customer === null && model === null && provider === null
}

/** A refund counts on its own day, which may have no request. */
function withCorrections(days: readonly DayRow[], corrections: readonly Correction[]): DayRow[] {
  const byDay = new Map(days.map(row => [row.day, row]))
  for (const { day, fee, cost, uncosted } of corrections) {
    const { fee: fees, upstream, uncosted: before, ...row } = byDay.get(day) ?? { day, ...NO_FIGURES }
    byDay.set(day, { ...row, fee: add(fees, -fee), upstream: add(upstream, cost), uncosted: add(before, -uncosted) })
  }
  return [...byDay.values()].sort((a, b) => (a.day < b.day ? -1 : 1))
}

/**
 * Returns the usage by day and by `span.by` as CSV, a day at a time. The first day with usage is read before this
 * returns, so an unavailable database causes an error instead of a broken document.
 */
export async function operatorUsageCsv(sql: Sql, span: UsageSpan): Promise<AsyncGenerator<string>> {
  const days = readDays(sql, span)
  const first = await days.next()
  return (async function* () {
    yield csvRecord(operatorUsageColumns)
    if (!first.done) yield first.value
    yield* days
  })()
}

async function* readDays(sql: Sql, span: UsageSpan): AsyncGenerator<string> {
  const isCorrected = span.by === 'customer' && hasCorrections(span)
  const statement = isCorrected ? CORRECTED_CUSTOMERS : groupsSql(tableOf(span), span)
  const lastMs = Date.parse(span.until)
  for (let dayMs = Date.parse(span.from); dayMs <= lastMs; dayMs += DAY_MS) {
    const day = new Date(dayMs).toISOString().slice(0, 10)
    const values = isCorrected ? [day, day] : [day, day, span.customer, span.model, span.provider, null]
    const { rows } = await sql.query<Omit<GroupRow, 'latencyMs'>>(statement, values)
    if (rows.length > 0) yield rows.map(row => csvRow(day, row)).join('')
  }
}

function csvRow(day: string, row: Omit<GroupRow, 'latencyMs'>): string {
  return csvRecord([
    day,
    row.id,
    nameOf(row),
    row.customerId ?? '',
    String(row.requests),
    row.failed?.toString() ?? '',
    row.input?.toString() ?? '',
    row.output?.toString() ?? '',
    usdText(row.cost),
    ...[row.fee, row.upstream, marginOf(row), row.uncosted].map(nanos =>
      nanos === null ? '' : { decimal: usdText(nanos) },
    ),
  ])
}

const NO_FIGURES: Figures = {
  requests: 0n,
  cost: 0n,
  failed: 0n,
  input: 0n,
  output: 0n,
  fee: 0n,
  upstream: 0n,
  uncosted: 0n,
  latencyMs: 0n,
}

/** The margin of the revenue whose cost is known. Null where there is none, or where nothing is counted. */
function marginOf({ fee, upstream, uncosted }: Pick<Figures, 'fee' | 'upstream' | 'uncosted'>): Nanos | null {
  if (fee === null || upstream === null || uncosted === null) return null
  const known = fee - uncosted
  return uncosted > 0n && known <= 0n && upstream === 0n ? null : known - upstream
}

function add(a: bigint | null, b: bigint | null): bigint | null {
  return a === null || b === null ? null : a + b
}

function shown(figures: Figures) {
  const { requests, cost, failed, input, output, fee, upstream, uncosted, latencyMs } = figures
  const margin = marginOf(figures)
  return {
    requests: Number(requests),
    charged_usd: usd(cost),
    failed: failed === null ? null : Number(failed),
    input_tokens: input === null ? null : Number(input),
    output_tokens: output === null ? null : Number(output),
    revenue_usd: fee === null ? null : usd(fee),
    upstream_cost_usd: upstream === null ? null : usd(upstream),
    margin_usd: margin === null ? null : usd(margin),
    unknown_cost_usd: uncosted === null ? null : usd(uncosted),
    mean_latency_ms:
      latencyMs === null || failed === null || requests === failed ? null : meanLatencyMs(latencyMs, requests - failed),
  }
}

function nameOf({ id, email, keyName }: Pick<GroupRow, 'id' | 'email' | 'keyName'>): string {
  return keyName ?? (email === null ? id : (emailOrNull(email) ?? id))
}
