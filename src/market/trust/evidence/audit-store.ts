import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import { DAY_MS } from '../../../base/domain/durations.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import { COMPARISONS } from '../../supply/newcomers/read-hoster-records.ts'
import type { CanaryRecord } from '../canary-audit.ts'
import { mean } from '../change-evidence.ts'
import type { Distances } from '../compare-panel.ts'
import type { AuditResult } from '../hoster-evidence.ts'
import type { SignalKind } from '../quarantine.ts'

/** An audit with what was measured. */
export interface AuditRow extends AuditResult {
  readonly hosterId: string
  readonly modelId: string
  readonly statistic: number
  /** Panels: the distance of the worst prompt. */
  readonly worst?: number
  readonly sample: number
}

/**
 * Stores an audit. One that fails a comparison takes back as many as are needed, but not twice as many: an honest
 * hoster fails one in 250. One that was not decided changes nothing.
 */
export async function insertAudit(sql: Sql, audit: AuditRow): Promise<void> {
  const { hosterId, modelId, kind, hasPassed, eValues, statistic, worst, sample, atMs } = audit
  await sql.query(
    `INSERT INTO hoster_audit (hoster_id, model_id, kind, passed, e_value, statistic, worst, sample, at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [hosterId, modelId, kind, hasPassed, mean(eValues), statistic, worst ?? null, sample, new Date(atMs)],
  )
  // These are always compared with a reference.
  if ((kind === 'sampling' || kind === 'shadow') && hasPassed !== null)
    await sql.query(
      `INSERT INTO hoster_comparison AS c (hoster_id, model_id, passes) VALUES ($1, $2, greatest($3, 0))
       ON CONFLICT (hoster_id, model_id) DO UPDATE SET passes = greatest(0, least($4, c.passes + $3))`,
      [hosterId, modelId, hasPassed ? 1 : -COMPARISONS, 2 * COMPARISONS],
    )
}

/** Records a canary that a reference answered or failed. */
export async function insertReferenceCanary(
  sql: Sql,
  modelId: string,
  hasFailed: boolean,
  atMs: number,
): Promise<void> {
  await sql.query(
    `INSERT INTO hoster_audit (hoster_id, model_id, kind, passed, e_value, statistic, sample, at)
     VALUES (NULL, $1, 'canary', NULL, 1, $2, 1, $3)`,
    [modelId, hasFailed ? 1 : 0, new Date(atMs)],
  )
}

/** Results of the audits of one signal. */
export interface AuditCounts {
  readonly kind: SignalKind
  readonly passed: number
  readonly failed: number
  /** Too little was known to judge them. */
  readonly undecided: number
}

/** Counts the kept audits of a hoster by signal. */
export async function countAudits(sql: Sql, hosterId: string): Promise<AuditCounts[]> {
  const { rows } = await sql.query<AuditCounts>(
    `SELECT kind, count(*) FILTER (WHERE passed)::int AS passed, count(*) FILTER (WHERE NOT passed)::int AS failed,
       count(*) FILTER (WHERE passed IS NULL)::int AS undecided
     FROM hoster_audit WHERE hoster_id = $1 GROUP BY kind`,
    [hosterId],
  )
  return rows
}

/** Returns the last audits of a hoster, the newest first. */
export async function listAudits(sql: Sql, hosterId: string, limit: number) {
  const { rows } = await sql.query<{
    kind: SignalKind
    model_id: string
    passed: boolean | null
    statistic: number
    sample: number
    at: Date
  }>(
    `SELECT kind, model_id, passed, statistic, sample, at FROM hoster_audit WHERE hoster_id = $1 ORDER BY audit_id DESC LIMIT $2`,
    [hosterId, limit],
  )
  return rows
}

/**
 * Audits of a model by one hoster that are compared with those of another: the latest. With three others, a distance
 * can be the most extreme of 1,000.
 */
export const COMPARED = 300
/** Audits by canaries of all other hosters of a model that one is compared with. */
const CANARIES_COMPARED = 500

/** Returns how the other hosters of a model, and the references, answered their latest canaries. */
export async function canaryRecordOfOthers(sql: Sql, modelId: string, hosterId: string): Promise<CanaryRecord> {
  return queryRow<{ asked: number; failed: number }>(
    sql,
    `SELECT coalesce(sum(sample), 0)::int AS asked, coalesce(sum(statistic), 0)::int AS failed FROM (
       SELECT sample, statistic FROM hoster_audit a
       WHERE model_id = $1 AND kind = 'canary' AND hoster_id IS DISTINCT FROM $2
         AND NOT EXISTS (SELECT FROM hoster h WHERE h.hoster_id = a.hoster_id AND h.quarantined_at IS NOT NULL)
       ORDER BY audit_id DESC LIMIT ${CANARIES_COMPARED}
     ) AS latest`,
    [modelId, hosterId],
  )
}

/** Returns the latest distances that audits of one kind measured for a model, by hoster. */
export async function earlierDistances(sql: Sql, modelId: string, kind: SignalKind): Promise<Distances> {
  const { rows } = await sql.query<{ hoster_id: string; overall: number[]; worst: number[] }>(
    `SELECT hoster_id, array_agg(statistic ORDER BY place) AS overall, array_agg(worst ORDER BY place) AS worst FROM (
       SELECT hoster_id, statistic, worst, row_number() OVER (PARTITION BY hoster_id ORDER BY audit_id DESC) AS place
       FROM hoster_audit
       WHERE model_id = $1 AND kind = $2 AND hoster_id NOT IN (SELECT hoster_id FROM hoster WHERE quarantined_at IS NOT NULL)
     ) AS latest WHERE place <= ${COMPARED} GROUP BY hoster_id`,
    [modelId, kind],
  )
  return new Map(
    rows.map(row => [row.hoster_id, row.overall.map((overall, at) => ({ overall, worst: elementAt(row.worst, at) }))]),
  )
}

/** Returns the models of which the hoster has passed enough comparisons with a server of the operator. */
export async function comparedModels(sql: Sql, hosterId: string): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ modelId: string }>(
    'SELECT model_id AS "modelId" FROM hoster_comparison WHERE hoster_id = $1 AND passes >= $2',
    [hosterId, COMPARISONS],
  )
  return new Set(rows.map(({ modelId }) => modelId))
}

/** Conversations that hosters have seen are kept for a day, the latest ones. */
const CONVERSATIONS_MAX = 500_000

/** Deletes audits and comparisons that are older than 90 days, and what is kept of shared requests after a day. */
export async function pruneAudits(sql: Sql, nowMs: number): Promise<void> {
  const before = new Date(nowMs - 90 * DAY_MS)
  const yesterday = new Date(nowMs - DAY_MS)
  await sql.query(
    `DELETE FROM seen_conversation WHERE seen_at < $1
        OR seen_at <= (SELECT seen_at FROM seen_conversation ORDER BY seen_at DESC OFFSET $2 LIMIT 1)`,
    [yesterday, CONVERSATIONS_MAX],
  )
  await sql.query(`DELETE FROM shared_request_spend WHERE day < ($1::timestamptz AT TIME ZONE 'UTC')::date`, [
    yesterday,
  ])
  await sql.query('DELETE FROM hoster_audit WHERE at < $1', [before])
  await sql.query('DELETE FROM compared_answer WHERE at < $1', [before])
}
