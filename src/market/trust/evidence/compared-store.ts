import { type Pool, type Sql, transaction } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import {
  auditComparisons,
  type BatchedComparison,
  COMPARED_BATCH,
  type Comparison,
  type ComparisonKind,
  type EarlierValues,
} from '../compare-answer.ts'
import { addAudit } from '../hoster-evidence.ts'
import { insertAudit } from './audit-store.ts'
import { lockTrustOf, writeTrust } from './trust-store.ts'

/** A comparison of one answer of a hoster. */
export interface ComparedAnswer extends Comparison {
  readonly hosterId: string
  readonly modelId: string
  /**
   * shadow: the answer to a customer. replay: to a customer's request that was sent once more. prompt: to one of the
   * gateway.
   */
  readonly source: 'shadow' | 'replay' | 'prompt'
  /** Null: a prompt of the gateway. */
  readonly customerId: string | null
  readonly atMs: number
}

/** The most requests of one customer in an audit, a quarter. */
const PER_CUSTOMER = 8
/** The latest values of each hoster that others are compared with, and how many of them may be of one customer. */
const VALUES_KEPT = 300
const VALUES_OF_CUSTOMER = 75

/**
 * Stores a comparison. When enough wait, they become an audit in the same transaction. False: it was not stored,
 * because too many of its customer wait.
 */
export function recordCompared(pool: Pool, compared: ComparedAnswer): Promise<boolean> {
  const { hosterId, modelId, source, customerId, kind, value, atMs } = compared
  return transaction(pool, async sql => {
    // Comparisons of one hoster are counted one after the other.
    const trust = await lockTrustOf(sql, hosterId)
    const waiting = await readWaiting(sql, hosterId, modelId)
    const isFull = waiting.filter(other => other.customerId === customerId).length >= PER_CUSTOMER
    // What is above the part of a customer is left out: if it waited, it would keep the others waiting.
    if (customerId !== null && isFull) return false
    const stored = await queryRow<{ answerId: bigint }>(
      sql,
      `INSERT INTO compared_answer (hoster_id, model_id, source, customer_id, kind, value, at) VALUES ($1, $2, $3, $4, $5, $6, $7)
       RETURNING answer_id AS "answerId"`,
      [hosterId, modelId, source, customerId, kind, value, new Date(atMs)],
    )
    const batch: readonly Waiting[] = [...waiting, { ...stored, customerId, kind, value }]
    if (batch.length < COMPARED_BATCH) return true
    const result = auditComparisons(batch, await readEarlier(sql, modelId, hosterId))
    const audit = { ...result, kind: 'shadow', hosterId, modelId, sample: batch.length, atMs } as const
    await insertAudit(sql, audit)
    await writeTrust(sql, { ...trust, evidence: addAudit(trust.evidence, audit) }, atMs)
    await sql.query('UPDATE compared_answer SET is_counted = true WHERE answer_id = ANY ($1)', [
      batch.map(({ answerId }) => answerId),
    ])
    return true
  })
}

interface Waiting extends BatchedComparison {
  readonly answerId: bigint
}

async function readWaiting(sql: Sql, hosterId: string, modelId: string): Promise<Waiting[]> {
  const { rows } = await sql.query<Waiting>(
    `SELECT answer_id AS "answerId", customer_id AS "customerId", kind, value FROM compared_answer
      WHERE hoster_id = $1 AND model_id = $2 AND NOT is_counted ORDER BY answer_id LIMIT ${COMPARED_BATCH}`,
    [hosterId, modelId],
  )
  return rows
}

/** Reads the latest values of the other hosters of a model, of those that are not quarantined. */
async function readEarlier(sql: Sql, modelId: string, hosterId: string): Promise<EarlierValues> {
  const { rows } = await sql.query<{ hoster_id: string; kind: ComparisonKind; values: number[] }>(
    `SELECT o.hoster_id, k.kind, latest.values
       FROM (SELECT DISTINCT hoster_id FROM hoster_price JOIN hoster_endpoint USING (endpoint_id) JOIN hoster USING (hoster_id)
              WHERE model_id = $1 AND hoster_id <> $2 AND quarantined_at IS NULL) o,
         (VALUES ('gap'), ('words')) k(kind),
         LATERAL (SELECT array_agg(value) AS values
                    FROM (SELECT value, customer_id, row_number() OVER (PARTITION BY customer_id ORDER BY answer_id DESC) AS place
                            FROM (SELECT * FROM compared_answer c
                                   WHERE c.model_id = $1 AND c.kind = k.kind AND c.hoster_id = o.hoster_id
                                   ORDER BY answer_id DESC LIMIT ${VALUES_KEPT}) AS last) AS placed
                   -- Customers of one hoster must not decide how far apart the others may be.
                   WHERE customer_id IS NULL OR (place <= ${VALUES_OF_CUSTOMER}
                     AND customer_id NOT IN (SELECT r.customer_id FROM related_customers($2) r))) latest
      WHERE latest.values IS NOT NULL`,
    [modelId, hosterId],
  )
  const of = (kind: ComparisonKind) =>
    new Map(rows.filter(row => row.kind === kind).map(row => [row.hoster_id, row.values] as const))
  return { gap: of('gap'), words: of('words') }
}

/** Comparisons of a hoster that are looked at, the latest. */
const SUPPORT_MAX = 5_000
/**
 * So many customers must show a cheat, each with these odds. The prompts of the gateway are one more, and are enough
 * with the higher odds.
 */
const SUPPORTERS_MIN = 3
const SUPPORT_ODDS = 20
const OWN_SUPPORT_ODDS = 1_000

/**
 * Whether the comparisons of several unrelated customers speak against a hoster, each for itself. One that knows a
 * prompt which an honest server of the victim answers in another way could otherwise send it again and again until the
 * victim seems to cheat.
 */
export async function isBroadlySupported(sql: Sql, hosterId: string): Promise<boolean> {
  const { rows } = await sql.query<BatchedComparison & { model_id: string }>(
    `SELECT model_id, customer_id AS "customerId", kind, value FROM compared_answer
      WHERE hoster_id = $1 AND is_counted ORDER BY answer_id DESC LIMIT ${SUPPORT_MAX}`,
    [hosterId],
  )
  const supporters = new Set<string | null>()
  let isShownAlone = false
  for (const [modelId, ofModel] of Map.groupBy(rows, row => row.model_id)) {
    const earlier = await readEarlier(sql, modelId, hosterId)
    for (const [customerId, compared] of Map.groupBy(ofModel, row => row.customerId)) {
      const odds = Math.max(...auditComparisons(compared, earlier).eValues)
      if (odds >= SUPPORT_ODDS) supporters.add(customerId)
      isShownAlone ||= customerId === null && odds >= OWN_SUPPORT_ODDS
    }
  }
  return isShownAlone || supporters.size >= SUPPORTERS_MIN
}
