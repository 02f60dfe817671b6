import type { Nanos } from '../base/domain/money.ts'
import type { UsageSpan } from '../wire/api/operator/usage.ts'

/** Sums of requests, in nano-USD. */
export interface Figures {
  readonly requests: bigint
  readonly cost: Nanos
  /** Null by key, member, label and server. */
  readonly failed: bigint | null
  readonly input: bigint | null
  readonly output: bigint | null
  readonly fee: Nanos | null
  /** What clouds and servers charged. */
  readonly upstream: Nanos | null
  /** What answers of clouds without a known cost earned. */
  readonly uncosted: Nanos | null
  /** The sum over the requests that did not fail. */
  readonly latencyMs: bigint | null
}

export type DayRow = Figures & { readonly day: string }

export interface GroupRow extends Figures {
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

/** The figures that a table lacks: keys, members and labels have charges only, servers neither tokens nor failures nor times. */
export function lacksOf(table: Table): Partial<Figures> {
  if (hasTokens(table)) return {}
  const uncounted = { failed: null, input: null, output: null, latencyMs: null }
  return table === 'endpoint_day' ? uncounted : { ...uncounted, fee: null, upstream: null, uncosted: null }
}

export type Table =
  | 'platform_day'
  | 'usage_day'
  | 'endpoint_day'
  | 'usage_key_day'
  | 'usage_member_day'
  | 'usage_label_day'

export const hasTokens = (table: Table) => table === 'platform_day' || table === 'usage_day'

export function tableOf({ by, customer }: UsageSpan): Table {
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

export const daysSql: Readonly<Record<Table, string>> = {
  platform_day: daysOf(SOURCES.platform_day),
  usage_day: daysOf(SOURCES.usage_day),
  endpoint_day: daysOf(SOURCES.endpoint_day),
  usage_key_day: daysOf(SOURCES.usage_key_day),
  usage_member_day: daysOf(SOURCES.usage_member_day),
  usage_label_day: daysOf(SOURCES.usage_label_day),
}

/**
 * What customers earned the operator less than their fees, and cost it more than their upstreams: refunds, on the day of each, and
 * audits. The operator pays audits with its own money, so their fees earn nothing, and the shares of their hosters are a cost.
 */
const CORRECTED = `
  SELECT r.customer_id, (r.at AT TIME ZONE 'UTC')::date AS day, r.fee_nanos AS fee, 0::bigint AS cost,
    CASE WHEN u.provider = 'cloud' AND u.upstream_cost_nanos IS NULL THEN r.fee_nanos ELSE 0 END AS uncosted
  FROM refund r
  -- A join would read all rows of each month once the span has more than a few refunds.
  LEFT JOIN LATERAL (
    SELECT provider, upstream_cost_nanos FROM usage_row WHERE customer_id = r.customer_id AND request_id = r.request_id LIMIT 1
  ) AS u ON true
  WHERE r.at >= $1::date::timestamp AT TIME ZONE 'UTC' AND r.at < ($2::date + 1)::timestamp AT TIME ZONE 'UTC'
  UNION ALL
  SELECT customer_id, day, fee_nanos, hoster_share_nanos, 0 FROM usage_day JOIN house_customer USING (customer_id) WHERE ${SPAN}`
const CORRECTION_SUMS = 'sum(fee)::bigint AS fee, sum(cost)::bigint AS cost, sum(uncosted)::bigint AS uncosted'

/** A day with corrections, which may have no request. */
export interface Correction {
  readonly day: string
  readonly fee: Nanos
  readonly cost: Nanos
  readonly uncosted: Nanos
}

/** The corrections by day. */
export const CORRECTIONS = `
SELECT to_char(day, 'YYYY-MM-DD') AS day, ${CORRECTION_SUMS} FROM (${CORRECTED}) AS corrections
GROUP BY day HAVING sum(fee) <> 0 OR sum(cost) <> 0`

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
export function groupsSql(table: Table, { by }: Pick<UsageSpan, 'by'>): string {
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

/** The most charged customers, with their figures after refunds. Reads the usage of the first $3 only. */
export const TOP_CUSTOMERS = `
WITH ranked AS MATERIALIZED (
  SELECT customer_id, sum(requests)::bigint AS requests, sum(cost_nanos)::bigint AS cost
  FROM platform_customer_day WHERE ${SPAN} GROUP BY customer_id HAVING sum(requests) <> 0
), top AS MATERIALIZED (SELECT * FROM ranked WHERE ${NO_HOUSE} ORDER BY cost DESC, requests DESC, customer_id LIMIT $3
), corrected AS MATERIALIZED (SELECT customer_id, ${CORRECTION_SUMS} FROM (${CORRECTED}) AS corrections GROUP BY customer_id)
SELECT t.customer_id::text AS id, t.requests, t.cost, u.failed, u.input, u.output, u.fee - coalesce(r.fee, 0) AS fee, u.upstream,
  u.uncosted - coalesce(r.uncosted, 0) AS uncosted, u."latencyMs", a.*, t.customer_id::text AS "customerId", c.email, NULL AS "keyName"
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
LEFT JOIN corrected r USING (customer_id)
LEFT JOIN customer c USING (customer_id)
ORDER BY t.cost DESC, t.requests DESC, t.customer_id`

/** All customers with usage or corrections in the span, those of audits too: their margins add up to that of the span. */
export const CORRECTED_CUSTOMERS = `
WITH used AS (SELECT customer_id, ${SUMS} FROM usage_day WHERE ${SPAN} GROUP BY customer_id),
  corrected AS (SELECT customer_id, ${CORRECTION_SUMS} FROM (${CORRECTED}) AS corrections GROUP BY customer_id)
SELECT customer_id::text AS id, customer_id::text AS "customerId", c.email, NULL AS "keyName", coalesce(u.requests, 0) AS requests,
  coalesce(u.cost, 0) AS cost, coalesce(u.failed, 0) AS failed, coalesce(u.input, 0) AS input, coalesce(u.output, 0) AS output,
  coalesce(u.fee, 0) - coalesce(r.fee, 0) AS fee, coalesce(u.upstream, 0) + coalesce(r.cost, 0) AS upstream,
  coalesce(u.uncosted, 0) - coalesce(r.uncosted, 0) AS uncosted
FROM used u FULL JOIN corrected r USING (customer_id) LEFT JOIN customer c USING (customer_id)
ORDER BY cost DESC, requests DESC, customer_id`
