import type { Sql } from '../../db/pool.ts'

/** What an offer of a hoster has done. */
export interface HosterRecord {
  /** Answers in the last 90 days. */
  readonly answered: number
  /** What its customers have paid for them since midnight UTC. */
  readonly todayNanos: bigint
}

/** Reads the records of all offers of hosters, by offer id, as all nodes have reported them. */
export async function readHosterRecords(sql: Sql, nowMs: number): Promise<ReadonlyMap<string, HosterRecord>> {
  const { rows } = await sql.query<{ endpoint_id: string; model_id: string; answered: number; today_nanos: bigint }>(
    `SELECT endpoint_id, model_id, sum(answered)::float8 AS answered,
            coalesce(sum(cost_nanos) FILTER (WHERE day = ($1::timestamptz AT TIME ZONE 'UTC')::date), 0)::bigint AS today_nanos
       FROM server_day WHERE endpoint_id IN (SELECT endpoint_id::text FROM hoster_endpoint)
      GROUP BY endpoint_id, model_id`,
    [new Date(nowMs)],
  )
  return new Map(
    rows.map(({ endpoint_id, model_id, answered, today_nanos }) => [
      `${endpoint_id}/${model_id}`,
      { answered, todayNanos: today_nanos },
    ]),
  )
}
