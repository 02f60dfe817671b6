import { type Pool, type Sql, transaction } from '../../db/pool.ts'
import {
  auditComparisons,
  COMPARED_BATCH,
  type Comparison,
  type ComparisonKind,
  type EarlierValues,
} from '../compare-answer.ts'
import { addAudit } from '../hoster-evidence.ts'
import { insertAudit } from './audit-store.ts'
import { lockTrust, writeTrust } from './trust-store.ts'

/** A comparison of one answer of a hoster. */
export interface ComparedAnswer extends Comparison {
  readonly hosterId: string
  readonly modelId: string
  /** shadow: the answer to a customer. replay: to a customer's request that was sent once more. prompt: to one of the gateway. */
  readonly source: 'shadow' | 'replay' | 'prompt'
  /** Null: a prompt of the gateway. */
  readonly customerId: string | null
  readonly atMs: number
}

/** The most requests of one customer in an audit, a quarter. */
const PER_CUSTOMER = 8
/** Of so many waiting comparisons the oldest are looked at. */
const WAITING_MAX = 200
/** The latest values of each hoster that others are compared with. */
const VALUES_KEPT = 300

/** Stores a comparison. When enough wait, they become an audit in the same transaction. */
export function recordCompared(pool: Pool, compared: ComparedAnswer): Promise<void> {
  const { hosterId, modelId, source, customerId, kind, value, atMs } = compared
  return transaction(pool, async sql => {
    // Comparisons of one hoster are counted one after the other.
    const trust = (await lockTrust(sql, [hosterId])).get(hosterId)!
    await sql.query(
      `INSERT INTO compared_answer (hoster_id, model_id, source, customer_id, kind, value, at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
      [hosterId, modelId, source, customerId, kind, value, new Date(atMs)],
    )
    const batch = batchOf(await readWaiting(sql, hosterId, modelId))
    if (batch === null) return
    const result = auditComparisons(batch, await readEarlier(sql, modelId, hosterId))
    const audit = { ...result, kind: 'shadow', hosterId, modelId, sample: batch.length, atMs } as const
    await insertAudit(sql, audit)
    await writeTrust(sql, { ...trust, evidence: addAudit(trust.evidence, audit) }, atMs)
    await sql.query('UPDATE compared_answer SET is_counted = true WHERE answer_id = ANY ($1)', [
      batch.map(({ answerId }) => answerId),
    ])
  })
}

interface Waiting extends Comparison {
  readonly answerId: bigint
  readonly customerId: string | null
}

async function readWaiting(sql: Sql, hosterId: string, modelId: string): Promise<Waiting[]> {
  const { rows } = await sql.query<Waiting>(
    `SELECT answer_id AS "answerId", customer_id AS "customerId", kind, value FROM compared_answer
      WHERE hoster_id = $1 AND model_id = $2 AND NOT is_counted ORDER BY answer_id LIMIT ${WAITING_MAX}`,
    [hosterId, modelId],
  )
  return rows
}

/** Chooses the oldest comparisons, at most four of each customer. Null: too few wait. */
function batchOf(waiting: readonly Waiting[]): Waiting[] | null {
  const taken = new Map<string, number>()
  const batch = waiting.filter(({ customerId }) => {
    if (customerId === null) return true
    const count = (taken.get(customerId) ?? 0) + 1
    taken.set(customerId, count)
    return count <= PER_CUSTOMER
  })
  return batch.length < COMPARED_BATCH ? null : batch.slice(0, COMPARED_BATCH)
}

/** Reads the latest values of the other hosters of a model, of those that are not quarantined. */
async function readEarlier(sql: Sql, modelId: string, hosterId: string): Promise<EarlierValues> {
  const { rows } = await sql.query<{ hoster_id: string; kind: ComparisonKind; values: number[] }>(
    `SELECT o.hoster_id, k.kind, latest.values
       FROM (SELECT DISTINCT hoster_id FROM hoster_price JOIN hoster_endpoint USING (endpoint_id) JOIN hoster USING (hoster_id)
              WHERE model_id = $1 AND hoster_id <> $2 AND quarantined_at IS NULL) o,
         (VALUES ('gap'), ('words')) k(kind),
         LATERAL (SELECT array_agg(value) AS values
                    FROM (SELECT value FROM compared_answer c
                           WHERE c.model_id = $1 AND c.kind = k.kind AND c.hoster_id = o.hoster_id
                           ORDER BY answer_id DESC LIMIT ${VALUES_KEPT}) AS last) latest
      WHERE latest.values IS NOT NULL`,
    [modelId, hosterId],
  )
  const of = (kind: ComparisonKind) =>
    new Map(rows.filter(row => row.kind === kind).map(row => [row.hoster_id, row.values] as const))
  return { gap: of('gap'), words: of('words') }
}
