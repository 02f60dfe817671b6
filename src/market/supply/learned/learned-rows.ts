import * as z from 'zod'
import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import type { LearnedOffer } from '../breakers/learned-offer.ts'

/** What one node has learned of one offer. */
export interface LearnedRow {
  readonly nodeId: string
  readonly offerId: string
  readonly offer: LearnedOffer
  /** How long ago the node wrote it, by the clock of PostgreSQL, ms. */
  readonly ageMs: number
}

/** Rows that are older say nothing: latency needs samples of the last ten minutes. */
export const LEARNED_AGE_MS_MAX = 600_000
/** How long a snapshot is kept. After a long downtime, only its limits of concurrency are of use. */
const SNAPSHOT_AGE = "interval '1 day'"

const sum = z.object({ n: z.number(), sum: z.number() })
const learnedSchema = z.object({
  ejectedForMs: z.number(),
  ejectedSinceMs: z.number(),
  ejections: z.number(),
  pausedForMs: z.number(),
  pausedSinceMs: z.number(),
  inFlight: z.number(),
  successes: z.number(),
  failures: z.number(),
  limit: z.number().nullable(),
  latency: z
    .object({
      first: z.object({ n: z.number(), x: z.number(), y: z.number(), xx: z.number(), xy: z.number() }),
      perToken: sum,
      whole: sum,
      output: sum,
      buckets: z.array(z.number()),
      agesMs: z.array(z.number()),
    })
    .nullable(),
})

/** Writes what this node has learned, in one statement. */
export async function writeLearned(sql: Sql, nodeId: string, offers: ReadonlyMap<string, LearnedOffer>): Promise<void> {
  await sql.query(
    `INSERT INTO learned_offer (node_id, endpoint_id, model_id, at, learned)
     SELECT $1, split_part(id, '/', 1), substr(id, strpos(id, '/') + 1), now(), learned
       FROM unnest($2::text[], $3::jsonb[]) AS u (id, learned)
     ON CONFLICT (node_id, endpoint_id, model_id) DO UPDATE SET at = excluded.at, learned = excluded.learned`,
    [nodeId, [...offers.keys()], [...offers.values()].map(toJson)],
  )
}

/** Three decimals are enough for sums of milliseconds, and keep a row at about 1 kB. */
function toJson(offer: LearnedOffer): string {
  return JSON.stringify(offer, (_key, value) => (typeof value === 'number' ? Math.round(value * 1000) / 1000 : value))
}

/**
 * Reads the rows of other nodes that were written since `sinceMs`, by the clock of PostgreSQL.
 *
 * @param sinceMs null for all rows that are not too old
 * @returns the rows, and the time for the next call
 */
export async function readLearned(
  sql: Sql,
  nodeId: string,
  sinceMs: number | null,
): Promise<{ rows: LearnedRow[]; nowMs: number }> {
  const { rows } = await sql.query<StoredRow & { now_ms: number }>(
    `SELECT now_ms, l.node_id, l.endpoint_id, l.model_id, l.learned, now_ms - extract(epoch FROM l.at)::float8 * 1000 AS age_ms
       FROM (SELECT extract(epoch FROM now())::float8 * 1000 AS now_ms) AS clock
       LEFT JOIN learned_offer l ON l.node_id <> $1 AND l.at > to_timestamp(greatest($2::float8, now_ms - $3::float8) / 1000)`,
    [nodeId, sinceMs ?? 0, LEARNED_AGE_MS_MAX],
  )
  return { rows: rows.flatMap(toLearnedRow), nowMs: elementAt(rows, 0).now_ms }
}

/** Reads the snapshot. Its rows belong to no node. */
export async function readSnapshot(sql: Sql): Promise<LearnedRow[]> {
  const { rows } = await sql.query<StoredRow>(
    `SELECT '' AS node_id, endpoint_id, model_id, learned, extract(epoch FROM now() - at)::float8 * 1000 AS age_ms
       FROM learned_snapshot`,
  )
  return rows.flatMap(toLearnedRow)
}

/**
 * Writes the snapshot, in one statement, and deletes what is a day old.
 *
 * @param offers what all nodes together have learned, with the age of the newest report
 */
export async function writeSnapshot(
  sql: Sql,
  offers: ReadonlyMap<string, { readonly offer: LearnedOffer; readonly ageMs: number }>,
): Promise<void> {
  await sql.query(
    `WITH old AS (DELETE FROM learned_snapshot WHERE at < now() - ${SNAPSHOT_AGE} AND NOT (endpoint_id || '/' || model_id = ANY ($1::text[])))
     INSERT INTO learned_snapshot (endpoint_id, model_id, at, learned)
     SELECT split_part(id, '/', 1), substr(id, strpos(id, '/') + 1), now() - age_ms * interval '1 millisecond', learned
       FROM unnest($1::text[], $2::jsonb[], $3::float8[]) AS u (id, learned, age_ms)
      ORDER BY 1, 2
     ON CONFLICT (endpoint_id, model_id) DO UPDATE SET at = excluded.at, learned = excluded.learned`,
    [
      [...offers.keys()],
      [...offers.values()].map(({ offer }) => toJson(offer)),
      [...offers.values()].map(({ ageMs }) => ageMs),
    ],
  )
}

/** Whether a node has written since the last snapshot. */
export async function hasChangesForSnapshot(sql: Sql): Promise<boolean> {
  const { has_changes } = await queryRow<{ has_changes: boolean }>(
    sql,
    `SELECT coalesce((SELECT max(at) FROM learned_offer) > (SELECT max(at) FROM learned_snapshot),
                     EXISTS (SELECT FROM learned_offer)) AS has_changes`,
  )
  return has_changes
}

/** Deletes the rows of nodes that have stopped, and of offers without requests. */
export async function deleteOldLearned(sql: Sql): Promise<void> {
  await sql.query("DELETE FROM learned_offer WHERE at < now() - $1 * interval '1 millisecond'", [LEARNED_AGE_MS_MAX])
}

interface StoredRow {
  node_id: string | null
  endpoint_id: string
  model_id: string
  learned: unknown
  age_ms: number
}

/** A row that another release has written in another form is ignored. */
function toLearnedRow({ node_id, endpoint_id, model_id, learned, age_ms }: StoredRow): LearnedRow[] {
  if (node_id === null) return []
  const { data } = learnedSchema.safeParse(learned)
  return data
    ? [{ nodeId: node_id, offerId: `${endpoint_id}/${model_id}`, offer: data, ageMs: Math.max(0, age_ms) }]
    : []
}
