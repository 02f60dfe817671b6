import type { Sql } from '../base/db/pool.ts'
import { DAY_MS } from '../base/domain/durations.ts'
import { type Nanos, usd, usdText } from '../base/domain/money.ts'
import { csvRecord } from '../base/runtime/csv.ts'
import { emailOrNull } from '../money/accounts/customers.ts'
import { meanLatencyMs } from '../money/usage/report-figures.ts'
import { GROUPS_MAX, type OperatorUsage, operatorUsageColumns, type UsageSpan } from '../wire/api/operator/usage.ts'
import { readSummedAt } from './platform-days.ts'

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
  const isRanked = span.by === 'customer' && span.customer === null && span.model === null && span.provider === null
  // Refunds and audits have no models and providers in the sums.
  const hasCorrections = span.customer === null && span.model === null && span.provider === null
  const [days, groups, summedAt, corrections] = await Promise.all([
    sql.query<DayRow>(daysSql[daysTable], values),
    isRanked
      ? sql.query<GroupRow>(TOP_CUSTOMERS, [span.from, span.until, GROUPS_MAX])
      : sql.query<GroupRow>(groupsSql(table, span), [...values, GROUPS_MAX]),
    daysTable === 'platform_day' ? readSummedAt(sql) : null,
    hasCorrections ? sql.query<Correction>(CORRECTIONS, [span.from, span.until]) : null,
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

/** What a day earned less than its fees, and cost more than its upstreams. */
interface Correction {
  readonly day: string
  readonly fee: Nanos
  readonly cost: Nanos
}

/** A refund counts on its own day, which may have no request. */
function withCorrections(days: readonly DayRow[], corrections: readonly Correction[]): DayRow[] {
  const byDay = new Map(days.map(row => [row.day, row]))
  for (const { day, fee, cost } of corrections) {
    const row = byDay.get(day) ?? { day, ...NO_FIGURES }
    byDay.set(day, { ...row, fee: add(row.fee, -fee), upstream: add(row.upstream, cost) })
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
  const statement = groupsSql(tableOf(span), span)
  const lastMs = Date.parse(span.until)
  for (let dayMs = Date.parse(span.from); dayMs <= lastMs; dayMs += DAY_MS) {
    const day = new Date(dayMs).toISOString().slice(0, 10)
    const { rows } = await sql.query<GroupRow>(statement, [day, day, span.customer, span.model, span.provider, null])
    if (rows.length > 0) yield rows.map(row => csvRow(day, row)).join('')
  }
}

function csvRow(day: string, row: GroupRow): string {
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
    ...[row.fee, row.upstream, marginOf(row), row.uncosted].map(nanos => (nanos === null ? '' : usdText(nanos))),
  ])
}

interface Figures {
  readonly requests: bigint
  readonly cost: Nanos
  /** Null by key, member, label and server. */
  readonly failed: bigint | null
  readonly input: bigint | null
  readonly output: bigint | null
  readonly fee: Nanos | null
  /** What clouds and servers charged. */
  readonly upstream: Nanos | null
  /** Charged for answers of clouds without a known cost. */
  readonly uncosted: Nanos | null
  /** The sum over the requests that did not fail. */
  readonly latencyMs: bigint | null
}

type DayRow = Figures & { readonly day: string }

interface GroupRow extends Figures {
  readonly id: string
  readonly customerId: string | null
  /** Null for providers and models. */
  readonly email: string | null
  /** Of a key, or of the hoster of a server. */
  readonly keyName: string | null
  readonly allGroups: bigint
  readonly allRequests: bigint
  readonly allCost: Nanos
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

/** The figures that a table lacks: keys, members and labels have charges only, servers neither tokens nor failures nor times. */
function lacksOf(table: Table): Partial<Figures> {
  if (hasTokens(table)) return {}
  const uncounted = { failed: null, input: null, output: null, latencyMs: null }
  return table === 'endpoint_day' ? uncounted : { ...uncounted, fee: null, upstream: null, uncosted: null }
}

function marginOf({ fee, upstream }: Pick<Figures, 'fee' | 'upstream'>): Nanos | null {
  return fee === null || upstream === null ? null : fee - upstream
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

function nameOf({ id, email, keyName }: GroupRow): string {
  return keyName ?? (email === null ? id : (emailOrNull(email) ?? id))
}

type Table = 'platform_day' | 'usage_day' | 'endpoint_day' | 'usage_key_day' | 'usage_member_day' | 'usage_label_day'

const hasTokens = (table: Table) => table === 'platform_day' || table === 'usage_day'

function tableOf({ by, customer }: UsageSpan): Table {
  if (by === 'key') return 'usage_key_day'
  if (by === 'member') return 'usage_member_day'
  if (by === 'label') return 'usage_label_day'
  if (by === 'server') return 'endpoint_day'
  return by === 'customer' || customer !== null ? 'usage_day' : 'platform_day'
}

const MARGIN = `sum(fee_nanos)::bigint AS fee, sum(upstream_cost_nanos)::bigint AS upstream,
  coalesce(sum(cost_nanos - costed_nanos) FILTER (WHERE provider = 'cloud'), 0)::bigint AS uncosted`
const SUMS = `sum(requests)::bigint AS requests, sum(cost_nanos)::bigint AS cost, sum(requests - successes)::bigint AS failed,
  sum(input_tokens)::bigint AS input, sum(output_tokens)::bigint AS output, sum(latency_ms_sum)::bigint AS "latencyMs", ${MARGIN}`
const KEY_SUMS = `sum(requests)::bigint AS requests, sum(cost_nanos)::bigint AS cost, NULL::bigint AS failed,
  NULL::bigint AS input, NULL::bigint AS output, NULL::bigint AS fee, NULL::bigint AS upstream, NULL::bigint AS uncosted,
  NULL::bigint AS "latencyMs"`
const SERVER_SUMS = `sum(requests)::bigint AS requests, sum(cost_nanos)::bigint AS cost, NULL::bigint AS failed,
  NULL::bigint AS input, NULL::bigint AS output, NULL::bigint AS "latencyMs", ${MARGIN}`
const SPAN = 'day BETWEEN $1::date AND $2::date'
const SERVED = '($4::text IS NULL OR model_id = $4) AND ($5::text IS NULL OR provider = $5)'
const CUSTOMER = '($3::uuid IS NULL OR customer_id = $3)'
/** The accounts that audit hosters are no customers. Their usage is among the groups that are not listed. */
const NO_HOUSE = 'NOT EXISTS (SELECT FROM house_customer h WHERE h.customer_id = ranked.customer_id)'

// Parameters that a table has no column for are named, since PostgreSQL must know the type of each.
const SOURCES: Readonly<Record<Table, { readonly sums: string; readonly from: string }>> = {
  platform_day: { sums: SUMS, from: `FROM platform_day WHERE ${SPAN} AND $3::uuid IS NULL AND ${SERVED}` },
  usage_day: { sums: SUMS, from: `FROM usage_day WHERE ${SPAN} AND ${CUSTOMER} AND ${SERVED}` },
  endpoint_day: { sums: SERVER_SUMS, from: `FROM endpoint_day WHERE ${SPAN} AND $3::uuid IS NULL AND ${SERVED}` },
  usage_key_day: {
    sums: KEY_SUMS,
    from: `FROM usage_key_day WHERE ${SPAN} AND ${CUSTOMER} AND $4::text IS NULL AND $5::text IS NULL`,
  },
  usage_member_day: {
    sums: KEY_SUMS,
    from: `FROM usage_key_day LEFT JOIN (SELECT key_id, coalesce(person_id::text, 'none') AS person_id FROM api_key) k USING (key_id)
      WHERE ${SPAN} AND ${CUSTOMER} AND $4::text IS NULL AND $5::text IS NULL`,
  },
  // Requests without a label are the rest of the sums of keys: every request has a key.
  usage_label_day: {
    sums: KEY_SUMS,
    from: `FROM (
        SELECT customer_id, day, CASE label WHEN '' THEN '(others)' ELSE label END AS label, requests, cost_nanos FROM usage_label_day
        UNION ALL SELECT customer_id, day, '(none)', requests, cost_nanos FROM usage_key_day
        UNION ALL SELECT customer_id, day, '(none)', -requests, -cost_nanos FROM usage_label_day
      ) AS labelled WHERE ${SPAN} AND ${CUSTOMER} AND $4::text IS NULL AND $5::text IS NULL`,
  },
}

const daysOf = ({ sums, from }: (typeof SOURCES)[Table]) =>
  `SELECT to_char(d, 'YYYY-MM-DD') AS day, ${sums} FROM (SELECT *, day AS d ${from}) AS usage GROUP BY d ORDER BY d`

const daysSql: Readonly<Record<Table, string>> = {
  platform_day: daysOf(SOURCES.platform_day),
  usage_day: daysOf(SOURCES.usage_day),
  endpoint_day: daysOf(SOURCES.endpoint_day),
  usage_key_day: daysOf(SOURCES.usage_key_day),
  usage_member_day: daysOf(SOURCES.usage_member_day),
  usage_label_day: daysOf(SOURCES.usage_label_day),
}

/**
 * The fees that refunds gave back, and those of audits: the operator pays these with its own money, so their fees earn
 * nothing, and the shares of their hosters are a cost.
 */
const CORRECTIONS = `
SELECT to_char(d, 'YYYY-MM-DD') AS day, sum(fee)::bigint AS fee, sum(cost)::bigint AS cost FROM (
  SELECT day AS d, refunded_nanos - refunded_share_nanos AS fee, 0 AS cost FROM platform_money_day WHERE ${SPAN}
  UNION ALL
  SELECT day, fee_nanos, hoster_share_nanos FROM usage_day JOIN house_customer USING (customer_id) WHERE ${SPAN}
) AS corrections GROUP BY d HAVING sum(fee) <> 0 OR sum(cost) <> 0`

const COLUMN = {
  provider: 'provider',
  server: 'endpoint_id',
  model: 'model_id',
  customer: 'customer_id',
  member: 'person_id',
  key: 'key_id',
  label: 'label',
} as const

/** The groups with the highest charges, each with its name, and the sums over all groups. */
function groupsSql(table: Table, { by }: Pick<UsageSpan, 'by'>): string {
  const { sums, from } = SOURCES[table]
  const column = COLUMN[by]
  return `
SELECT g.*, ${by === 'customer' ? 'g.id' : by === 'key' ? 'k.customer_id::text' : 'NULL'} AS "customerId",
  ${by === 'customer' || by === 'key' ? 'c.email' : by === 'member' ? 'p.email' : 'NULL'} AS email, ${by === 'key' ? 'k.name' : by === 'server' ? 'h.name' : 'NULL'} AS "keyName"
FROM (
  SELECT ${column}::text AS id, ${sums}, count(*) OVER () AS "allGroups", (sum(sum(requests)) OVER ())::bigint AS "allRequests",
    (sum(sum(cost_nanos)) OVER ())::bigint AS "allCost"
  ${from} GROUP BY ${column} ORDER BY cost DESC, requests DESC, id LIMIT $6
) AS g
${by === 'key' ? 'LEFT JOIN api_key k ON k.key_id = g.id::uuid LEFT JOIN customer c ON c.customer_id = k.customer_id' : ''}
${by === 'customer' ? 'LEFT JOIN customer c ON c.customer_id = g.id::uuid' : ''}
${by === 'server' ? 'LEFT JOIN hoster_endpoint e ON e.endpoint_id::text = g.id LEFT JOIN hoster h ON h.hoster_id = e.hoster_id' : ''}
${by === 'member' ? 'LEFT JOIN person p ON p.person_id::text = g.id' : ''}
ORDER BY g.cost DESC, g.requests DESC, g.id`
}

/** As `groupsSql` for all customers, without the fees that refunds gave back. Reads the usage and the refunds of the first $3 only. */
const TOP_CUSTOMERS = `
WITH ranked AS MATERIALIZED (
  SELECT customer_id, sum(requests)::bigint AS requests, sum(cost_nanos)::bigint AS cost
  FROM platform_customer_day WHERE ${SPAN} GROUP BY customer_id HAVING sum(requests) <> 0
), top AS MATERIALIZED (SELECT * FROM ranked WHERE ${NO_HOUSE} ORDER BY cost DESC, requests DESC, customer_id LIMIT $3)
SELECT t.customer_id::text AS id, t.requests, t.cost, u.failed, u.input, u.output, u.fee - r.fee AS fee, u.upstream, u.uncosted, u."latencyMs", a.*,
  t.customer_id::text AS "customerId", c.email, NULL AS "keyName"
FROM top t
CROSS JOIN (
  SELECT count(*) AS "allGroups", sum(requests)::bigint AS "allRequests", sum(cost)::bigint AS "allCost" FROM ranked
) AS a
CROSS JOIN LATERAL (
  SELECT coalesce(sum(requests - successes), 0)::bigint AS failed, coalesce(sum(input_tokens), 0)::bigint AS input,
    coalesce(sum(output_tokens), 0)::bigint AS output, coalesce(sum(fee_nanos), 0)::bigint AS fee,
    coalesce(sum(upstream_cost_nanos), 0)::bigint AS upstream,
    coalesce(sum(cost_nanos - costed_nanos) FILTER (WHERE provider = 'cloud'), 0)::bigint AS uncosted,
    coalesce(sum(latency_ms_sum), 0)::bigint AS "latencyMs"
  FROM usage_day WHERE usage_day.customer_id = t.customer_id AND ${SPAN}
) AS u
CROSS JOIN LATERAL (
  SELECT coalesce(sum(fee_nanos), 0)::bigint AS fee
  FROM refund WHERE refund.customer_id = t.customer_id AND (at AT TIME ZONE 'UTC')::date BETWEEN $1::date AND $2::date
) AS r
LEFT JOIN customer c ON c.customer_id = t.customer_id
ORDER BY t.cost DESC, t.requests DESC, t.customer_id`
