import type { Sql } from '../../../base/db/pool.ts'

/** What an offer of a hoster has done. */
export interface HosterRecord {
  /**
   * Answers of the last months that unrelated customers have paid for. Those at a lower price than the current one
   * count in proportion to it.
   */
  readonly answered: number
  /** What its customers have paid for them since midnight UTC. */
  readonly todayNanos: bigint
  /** Whether it has passed enough comparisons with a server of the operator. */
  readonly isCompared: boolean
}

/** How many comparisons a hoster must pass before its offer of a model that the operator also sells proves itself. */
export const COMPARISONS = 5

/**
 * Reads the records of all offers of hosters, by offer id: what the job of trust has counted, and what nodes have
 * reported today. Standing that was earned at 1 USD must not sell at 40 USD.
 *
 * @param answers how many answers prove an offer. One customer counts for at most answers / payers of them.
 * @param payers how many customers are needed
 */
export async function readHosterRecords(
  sql: Sql,
  nowMs: number,
  { answers, payers }: { readonly answers: number; readonly payers: number },
): Promise<ReadonlyMap<string, HosterRecord>> {
  const { rows } = await sql.query<{
    endpoint_id: string
    model_id: string
    answered: number
    today_nanos: bigint
    is_compared: boolean
  }>(
    `WITH payer AS (
       SELECT p.endpoint_id, p.model_id, sum(p.answers * coalesce(least(1,
                past.input_pico_per_token::float8 / nullif(now.input_pico_per_token, 0),
                past.output_pico_per_token::float8 / nullif(now.output_pico_per_token, 0)), 1)) AS answers
         FROM hoster_payer p
         JOIN hoster_price past ON (past.endpoint_id, past.model_id, past.version) = (p.endpoint_id, p.model_id, p.price_version)
         JOIN hoster_price now ON (now.endpoint_id, now.model_id) = (p.endpoint_id, p.model_id) AND now.valid_until IS NULL
        WHERE NOT p.is_related
        GROUP BY p.endpoint_id, p.model_id, p.customer_id),
     proved AS (
       SELECT endpoint_id::text, model_id, sum(least(answers * $3, $2)) / $3 AS answered FROM payer GROUP BY endpoint_id, model_id),
     today AS (
       SELECT endpoint_id, model_id, cost_nanos FROM server_day
        WHERE day = ($1::timestamptz AT TIME ZONE 'UTC')::date AND endpoint_id IN (SELECT endpoint_id::text FROM hoster_endpoint))
     SELECT endpoint_id, model_id, coalesce(answered, 0)::float8 AS answered, coalesce(cost_nanos, 0) AS today_nanos,
            EXISTS (SELECT FROM hoster_comparison c JOIN hoster_endpoint e USING (hoster_id)
                     WHERE e.endpoint_id::text = proved.endpoint_id AND c.model_id = proved.model_id AND passes >= $4) AS is_compared
       FROM proved FULL JOIN today USING (endpoint_id, model_id)`,
    [new Date(nowMs), answers, payers, COMPARISONS],
  )
  return new Map(
    rows.map(({ endpoint_id, model_id, answered, today_nanos, is_compared }) => [
      `${endpoint_id}/${model_id}`,
      { answered, todayNanos: today_nanos, isCompared: is_compared },
    ]),
  )
}
