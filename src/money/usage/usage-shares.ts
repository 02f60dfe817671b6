import type { Sql } from '../../base/db/pool.ts'
import { type Nanos, usd } from '../../base/domain/money.ts'
import { groupBy } from '../../base/runtime/collections.ts'
import type { ShareInterval, SharesQuery, UsageShares } from '../../wire/api/console-data.ts'
import { bucketNames, bucketStarts, lastDays, type Period } from './period.ts'

/**
 * Returns the usage of the last `days` UTC days by key, member, label, model or provider: the most expensive `series`
 * of them, each with every bucket, and the sum of the others.
 */
export async function usageSharesOf(
  sql: Sql,
  customerId: string,
  by: UsageShares['by'],
  { days, interval, series }: SharesQuery,
  nowMs: number,
): Promise<UsageShares> {
  const period = lastDays(days, nowMs)
  const rows = await readShares(sql, customerId, by, { period, interval, series })
  const byId = groupBy(rows, row => row.id)
  const ids = [...byId.keys()].filter(id => id !== null)
  const names = await readNames(sql, customerId, by, ids)
  const named = [...byId]
    .flatMap(([id, used]) => (id === null ? [] : [{ id, used }]))
    .sort((a, b) => a.used[0].rank - b.used[0].rank)
  const others = byId.get(null)
  const periods = bucketPeriods(period, interval)
  return {
    object: 'usage.shares',
    by,
    period_days: days,
    interval,
    totals: sumsOf(rows, by),
    data: named.map(({ id, used }) => {
      const key = names.get(id)
      return {
        id,
        name: key?.name ?? null,
        hint: key?.hint ?? null,
        is_revoked: key?.isRevoked ?? false,
        ...sumsOf(used, by),
        timeseries: timeseriesOf(used, by, periods),
      }
    }),
    other:
      others === undefined
        ? null
        : { count: others[0].others, ...sumsOf(others, by), timeseries: timeseriesOf(others, by, periods) },
  }
}

interface ShareRow {
  /** Null for the sum of all that are not among the first `series`. */
  readonly id: string | null
  readonly rank: number
  /** How many are not among the first `series`. */
  readonly others: number
  /** Epoch ms of the bucket. */
  readonly startMs: number
  readonly requests: number
  readonly inputTokens: number
  readonly outputTokens: number
  readonly costNanos: Nanos
}

function sumsOf(rows: readonly ShareRow[], by: UsageShares['by']) {
  const sum = (figure: (row: ShareRow) => number) => rows.reduce((total, row) => total + figure(row), 0)
  return {
    requests: sum(row => row.requests),
    cost_usd: usd(rows.reduce((total, row) => total + row.costNanos, 0n)),
    // Sums of keys have no tokens.
    input_tokens: hasTokens(by) ? sum(row => row.inputTokens) : null,
    output_tokens: hasTokens(by) ? sum(row => row.outputTokens) : null,
  }
}

type Buckets = readonly (readonly [startMs: number, name: string])[]

function bucketPeriods(period: Period, interval: ShareInterval): Buckets {
  const nameOf = bucketNames()
  return bucketStarts(period, interval).map(startMs => [startMs, nameOf(startMs)])
}

function timeseriesOf(rows: readonly ShareRow[], by: UsageShares['by'], periods: Buckets) {
  const byStart = new Map(rows.map(row => [row.startMs, row]))
  return periods.map(([startMs, period]) => {
    const row = byStart.get(startMs)
    return { period, ...sumsOf(row === undefined ? [] : [row], by) }
  })
}

const hasTokens = (by: UsageShares['by']) => by === 'model' || by === 'provider'

/** Stands for all keys of the playground. */
const PLAYGROUND = 'playground'

const sources = {
  // The console makes a key for each day of the playground: they are one line.
  key: {
    table: 'usage_key_day JOIN api_key USING (customer_id, key_id)',
    id: `CASE WHEN is_playground THEN '${PLAYGROUND}' ELSE key_id::text END`,
    tokens: '0::float8 AS input, 0::float8 AS output',
  },
  member: {
    table: 'usage_key_day JOIN api_key USING (customer_id, key_id)',
    id: "coalesce(person_id::text, 'none')",
    tokens: '0::float8 AS input, 0::float8 AS output',
  },
  // Requests without a label are the rest of the sums of keys; every request has a key.
  label: {
    table: `(
      SELECT customer_id, day, CASE label WHEN '' THEN '(others)' ELSE label END AS label, requests, cost_nanos FROM usage_label_day
      UNION ALL
      SELECT customer_id, day, '(none)', requests, cost_nanos FROM usage_key_day
      UNION ALL
      SELECT customer_id, day, '(none)', -requests, -cost_nanos FROM usage_label_day
    ) AS labelled`,
    id: 'label',
    tokens: '0::float8 AS input, 0::float8 AS output',
  },
  model: { table: 'usage_day', id: 'model_id', tokens: tokensOf() },
  provider: { table: 'usage_day', id: 'provider', tokens: tokensOf() },
}

function tokensOf(): string {
  return 'sum(input_tokens::float8) AS input, sum(output_tokens::float8) AS output'
}

async function readShares(
  sql: Sql,
  customerId: string,
  by: UsageShares['by'],
  { period, interval, series }: { period: Period; interval: ShareInterval; series: number },
): Promise<ShareRow[]> {
  const { table, id, tokens } = sources[by]
  const { rows } = await sql.query<ShareRow>(
    `WITH used AS MATERIALIZED (
       SELECT ${id} AS id, date_trunc('${interval}', day::timestamp) AS start, sum(requests::float8) AS requests, ${tokens},
              sum(cost_nanos)::bigint AS cost
         FROM ${table} WHERE customer_id = $1 AND day >= $2 AND day < $3 GROUP BY 1, 2
     ), ranked AS (
       SELECT id, least(row_number() OVER (ORDER BY sum(cost) DESC, sum(requests) DESC, id), $4::integer + 1) AS rank
         FROM used GROUP BY id HAVING sum(requests) > 0
     )
     SELECT CASE WHEN rank <= $4 THEN id::text END AS id, rank::integer, (SELECT count(*) FROM ranked WHERE rank > $4)::integer AS others,
            extract(epoch FROM start)::float8 * 1000 AS "startMs", sum(requests) AS requests, sum(input) AS "inputTokens",
            sum(output) AS "outputTokens", sum(cost)::bigint AS "costNanos"
       FROM used JOIN ranked USING (id)
      GROUP BY CASE WHEN rank <= $4 THEN id::text END, rank, start`,
    [customerId, period.fromIso.slice(0, 10), period.untilIso.slice(0, 10), series],
  )
  return rows
}

interface Named {
  readonly id: string
  readonly name: string
  readonly hint: string | null
  readonly isRevoked: boolean
}

/** Returns the names of keys or people, by id. Models and providers have none. */
async function readNames(
  sql: Sql,
  customerId: string,
  by: UsageShares['by'],
  ids: readonly string[],
): Promise<ReadonlyMap<string, Named>> {
  if (by !== 'key' && by !== 'member') return new Map()
  const { rows } =
    by === 'key'
      ? await sql.query<Named>(
          `SELECT key_id AS id, name, hint, revoked_at IS NOT NULL AS "isRevoked"
             FROM api_key WHERE customer_id = $1 AND key_id = ANY ($2)`,
          [customerId, ids.filter(id => id !== PLAYGROUND)],
        )
      : await sql.query<Named>(
          `SELECT person_id AS id, email AS name, NULL AS hint, false AS "isRevoked" FROM person WHERE person_id::text = ANY ($1)`,
          [ids],
        )
  return new Map(rows.map(named => [named.id, named]))
}
