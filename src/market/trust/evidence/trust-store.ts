import type { Sql } from '../../../base/db/pool.ts'
import { valueAt } from '../../../base/runtime/collections.ts'
import type { CustomerEvidence } from '../customer-evidence.ts'
import { type HosterEvidence, noHosterEvidence } from '../hoster-evidence.ts'
import type { TrustScore } from '../trust-score.ts'
import type { TalliedRequests } from './read-requests.ts'

/** What is known of one hoster, as stored. */
export interface StoredTrust {
  readonly hosterId: string
  readonly evidence: HosterEvidence
  /** Requests ever counted. */
  readonly requests: number
  /** The mean weight of an answered request. */
  readonly typicalWeight: number
}

/** Before the first request, a fault weighs like one that cost a thousandth of a dollar. */
const FIRST_WEIGHT = 1_000

/** Returns what is known of a hoster. */
export async function readTrust(sql: Sql, hosterId: string): Promise<StoredTrust> {
  const { rows } = await sql.query<TrustRow>(`SELECT ${COLUMNS} FROM hoster_trust WHERE hoster_id = $1`, [hosterId])
  return rows[0] === undefined ? newTrust(hosterId) : storedTrust(rows[0])
}

interface TrustRow {
  readonly hoster_id: string
  readonly evidence: HosterEvidence
  readonly requests: bigint
  readonly typical_weight: number
}

const COLUMNS = 'hoster_id, evidence, requests, typical_weight'

function storedTrust({
  hoster_id: hosterId,
  evidence,
  requests,
  typical_weight: typicalWeight,
}: TrustRow): StoredTrust {
  return { hosterId, evidence, requests: Number(requests), typicalWeight }
}

function newTrust(hosterId: string): StoredTrust {
  return { hosterId, evidence: noHosterEvidence, requests: 0, typicalWeight: FIRST_WEIGHT }
}

/** Reads and locks what is known of these hosters, until the transaction ends. Those without a row are new. */
export async function lockTrust(sql: Sql, hosterIds: readonly string[]): Promise<Map<string, StoredTrust>> {
  const { rows } = await sql.query<TrustRow>(
    `SELECT ${COLUMNS} FROM hoster_trust WHERE hoster_id = ANY ($1) ORDER BY hoster_id FOR UPDATE`,
    [hosterIds],
  )
  const known = new Map(rows.map(row => [row.hoster_id, storedTrust(row)]))
  return new Map(hosterIds.map(hosterId => [hosterId, known.get(hosterId) ?? newTrust(hosterId)]))
}

/** Like `lockTrust`, for one hoster. */
export async function lockTrustOf(sql: Sql, hosterId: string): Promise<StoredTrust> {
  return valueAt(await lockTrust(sql, [hosterId]), hosterId)
}

/** Writes what is known of a hoster. Without `score`, the last one stays. */
export async function writeTrust(
  sql: Sql,
  { hosterId, evidence, requests, typicalWeight }: StoredTrust,
  nowMs: number,
  score?: TrustScore,
): Promise<void> {
  await sql.query(
    `INSERT INTO hoster_trust (hoster_id, evidence, requests, typical_weight, score, updated_at) VALUES ($1, $2, $3, $4, $5, $6)
     ON CONFLICT (hoster_id) DO UPDATE SET evidence = excluded.evidence, requests = excluded.requests,
       typical_weight = excluded.typical_weight, score = coalesce(excluded.score, hoster_trust.score), updated_at = excluded.updated_at`,
    [
      hosterId,
      JSON.stringify(evidence),
      requests,
      typicalWeight,
      score === undefined ? null : JSON.stringify(score),
      new Date(nowMs),
    ],
  )
}

/** Adds the evidence of tallied requests. Old sums are decayed to the time of the new ones. */
export async function addCustomerEvidence(
  sql: Sql,
  { hosterId, customerId }: TalliedRequests,
  { reliability, conformance }: CustomerEvidence,
): Promise<void> {
  await sql.query({ name: 'trust_add_customer_evidence', text: ADD }, [
    hosterId,
    customerId,
    reliability.good,
    reliability.bad,
    reliability.squares,
    conformance.good,
    conformance.bad,
    conformance.squares,
    new Date(reliability.atMs),
  ])
}

// The half-life is that of decayed-counts.ts.
const ADD = `
INSERT INTO hoster_customer_evidence AS e (hoster_id, customer_id, reliability_good, reliability_bad, reliability_squares,
  conformance_good, conformance_bad, conformance_squares, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (hoster_id, customer_id) DO UPDATE SET
  (reliability_good, reliability_bad, reliability_squares, conformance_good, conformance_bad, conformance_squares, at) = (
    SELECT e.reliability_good * f + $3, e.reliability_bad * f + $4, e.reliability_squares * f * f + $5,
      e.conformance_good * f + $6, e.conformance_bad * f + $7, e.conformance_squares * f * f + $8, greatest(e.at, $9)
    FROM (SELECT 0.5 ^ (greatest(extract(epoch FROM $9::timestamptz - e.at), 0) / (7 * 86400)) AS f) AS decay)`

/** Returns the evidence of all customers of a hoster. */
export async function readCustomerEvidence(sql: Sql, hosterId: string): Promise<CustomerEvidence[]> {
  const { rows } = await sql.query<Record<string, number> & { at: Date }>(
    'SELECT * FROM hoster_customer_evidence WHERE hoster_id = $1',
    [hosterId],
  )
  return rows.map(row => {
    const sums = (part: 'reliability' | 'conformance') => ({
      good: row[`${part}_good`] ?? 0,
      bad: row[`${part}_bad`] ?? 0,
      squares: row[`${part}_squares`] ?? 0,
      atMs: row.at.getTime(),
    })
    return { reliability: sums('reliability'), conformance: sums('conformance') }
  })
}
