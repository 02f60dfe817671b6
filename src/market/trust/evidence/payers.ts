import type { Sql } from '../../../base/db/pool.ts'
import { DAY_MS } from '../../../base/domain/durations.ts'
import type { Span } from './read-requests.ts'

/** A customer that has not used an offer for so long does not count for its standing any more. */
const REMEMBERED_MS = 90 * DAY_MS

/**
 * Adds the answers of a span to the standing of offers, by customer and price, as far as the customer has paid for them
 * with its own money. Run it in the transaction that remembers the span, so that each answer counts once.
 */
export async function addPayers(sql: Sql, { fromMs, toMs }: Span): Promise<void> {
  await sql.query({ name: 'trust_add_payers', text: ADD }, [new Date(fromMs), new Date(toMs)])
}

// The answers of one customer count at all hosters together as far as its own money goes: what `own_money_spent` says,
// less what counted before. Free answers count in full, once the customer has paid for others.
const ADD = `
WITH answered AS MATERIALIZED (
    SELECT e.endpoint_id, u.model_id, u.price_version, u.customer_id, count(*) AS answers, sum(u.cost_nanos)::bigint AS cost_nanos,
      max(u.started_at) AS last_at
    FROM usage_event u JOIN hoster_endpoint e ON e.endpoint_id::text = u.endpoint_id
    WHERE u.started_at > $1 AND u.started_at <= $2 AND u.outcome = 'served' AND u.hoster_id IS NOT NULL AND u.price_version IS NOT NULL
      AND u.customer_id NOT IN (SELECT customer_id FROM house_customer)
    GROUP BY 1, 2, 3, 4
  ),
  own AS MATERIALIZED (
    SELECT s.customer_id,
      least(1, greatest(s.spent_nanos - coalesce((SELECT sum(p.paid_nanos) FROM hoster_payer p WHERE p.customer_id = s.customer_id), 0), 0)
        / nullif((SELECT sum(a.cost_nanos) FROM answered a WHERE a.customer_id = s.customer_id), 0)) AS part
    FROM own_money_spent(ARRAY(SELECT DISTINCT customer_id FROM answered)) s WHERE s.spent_nanos > 0
  ),
  paid AS (
    SELECT a.*, CASE WHEN a.cost_nanos = 0 THEN 1 ELSE o.part END AS part FROM answered a JOIN own o USING (customer_id)
  )
INSERT INTO hoster_payer AS p (endpoint_id, model_id, price_version, customer_id, answers, paid_nanos, last_at)
SELECT endpoint_id, model_id, price_version, customer_id, answers * part, floor(cost_nanos * part), last_at
FROM paid WHERE part > 0 ORDER BY 1, 2, 3, 4
ON CONFLICT (endpoint_id, model_id, price_version, customer_id) DO UPDATE SET answers = p.answers + excluded.answers,
  paid_nanos = p.paid_nanos + excluded.paid_nanos, last_at = greatest(p.last_at, excluded.last_at)`

/** Marks the payers that are related to their hoster, and forgets old ones. */
export async function reviewPayers(sql: Sql, nowMs: number): Promise<void> {
  await sql.query('DELETE FROM hoster_payer WHERE last_at < $1', [new Date(nowMs - REMEMBERED_MS)])
  await sql.query(
    `WITH related AS MATERIALIZED (SELECT DISTINCT hoster_id, customer_id FROM related_customers())
     UPDATE hoster_payer p SET is_related = true FROM hoster_endpoint e JOIN related r USING (hoster_id)
      WHERE e.endpoint_id = p.endpoint_id AND r.customer_id = p.customer_id AND NOT p.is_related`,
  )
}
