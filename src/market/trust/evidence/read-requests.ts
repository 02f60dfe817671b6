import type { Sql } from '../../../base/db/pool.ts'
import { faultOutcomes, type RequestTally } from '../request-tally.ts'

/** A span of time: after `fromMs`, up to and with `toMs`, Unix ms. */
export interface Span {
  readonly fromMs: number
  readonly toMs: number
}

export interface TalliedRequests extends RequestTally {
  readonly hosterId: string
  readonly customerId: string
}

/**
 * Tallies the requests that began in a span, by hoster and customer. Left out: requests of house customers, of
 * customers that are related to the hoster and of those that have spent promotion credit only, and attempts of requests
 * that failed at two servers, since their prompt is to blame.
 */
export async function readRequests(sql: Sql, span: Span): Promise<TalliedRequests[]> {
  const { rows } = await sql.query<TalliedRequests>({ name: 'trust_read_requests', text: TALLY }, [
    new Date(span.fromMs),
    new Date(span.toMs),
    faultOutcomes,
  ])
  return rows
}

const TALLY = `
WITH span AS MATERIALIZED (
    SELECT customer_id, request_id, hoster_id, outcome, cost_nanos, usage_source, reported_output_tokens, attempts
    FROM usage_event
    WHERE started_at > $1 AND started_at <= $2 AND (hoster_id IS NOT NULL OR json_typeof(attempts) = 'array')
      AND customer_id NOT IN (SELECT customer_id FROM house_customer)
  ),
  answered AS (
    SELECT hoster_id, customer_id, count(*)::int AS good, sum(cost_nanos / 1e3 + 1) AS weight, sum((cost_nanos / 1e3 + 1) ^ 2) AS squares,
      count(*) FILTER (WHERE usage_source = 'gateway' AND reported_output_tokens IS NULL
        OR json_typeof(attempts) = 'array' AND attempts -> -1 ->> 'breaches' IS NOT NULL)::int AS violations
    FROM span WHERE outcome = 'served' AND hoster_id IS NOT NULL GROUP BY 1, 2
  ),
  attempt AS (
    SELECT s.customer_id, s.request_id, a ->> 'endpointId' AS endpoint_id, a ->> 'provider' AS provider, a ->> 'outcome' AS outcome
    FROM span s, json_array_elements(CASE WHEN json_typeof(s.attempts) = 'array' THEN s.attempts ELSE '[]' END) a
    WHERE a ->> 'outcome' = ANY ($3)
  ),
  broken AS (SELECT customer_id, request_id FROM attempt GROUP BY 1, 2 HAVING count(DISTINCT endpoint_id) > 1),
  fault AS (
    SELECT e.hoster_id, a.customer_id, a.outcome = 'malformed' AS is_violation FROM attempt a
      JOIN hoster_endpoint e ON e.endpoint_id::text = a.endpoint_id
    WHERE a.provider = 'hoster'
      AND NOT EXISTS (SELECT FROM broken b WHERE b.customer_id = a.customer_id AND b.request_id = a.request_id)
    UNION ALL
    SELECT hoster_id, customer_id, false FROM span WHERE outcome = 'interrupted' AND hoster_id IS NOT NULL
  ),
  failed AS (
    SELECT hoster_id, customer_id, count(*)::int AS faults, count(*) FILTER (WHERE is_violation)::int AS violations FROM fault GROUP BY 1, 2
  ),
  related AS MATERIALIZED (SELECT DISTINCT hoster_id, customer_id FROM related_customers()),
  payer AS MATERIALIZED (
    SELECT customer_id FROM own_money_spent(ARRAY(SELECT DISTINCT customer_id FROM span)) WHERE spent_nanos > 0
  )
SELECT hoster_id AS "hosterId", customer_id AS "customerId", coalesce(g.good, 0) AS good, coalesce(g.weight, 0)::float8 AS weight,
  coalesce(g.squares, 0)::float8 AS squares, coalesce(f.faults, 0) AS faults, coalesce(g.violations, 0) + coalesce(f.violations, 0) AS violations
FROM answered g FULL JOIN failed f USING (hoster_id, customer_id) JOIN payer USING (customer_id)
WHERE NOT EXISTS (SELECT FROM related r WHERE r.hoster_id = coalesce(g.hoster_id, f.hoster_id) AND r.customer_id = coalesce(g.customer_id, f.customer_id))
ORDER BY 1, 2`
