import type { Sql } from '../../db/pool.ts'
import type { CanaryRecord } from '../canary-audit.ts'
import type { Distances } from '../compare-panel.ts'
import type { AuditResult } from '../hoster-evidence.ts'
import type { SignalKind } from '../quarantine.ts'

/** An audit with what was measured. */
export interface AuditRow extends AuditResult {
  readonly hosterId: string
  readonly modelId: string
  readonly statistic: number
  readonly sample: number
}

export async function insertAudit(sql: Sql, audit: AuditRow): Promise<void> {
  const { hosterId, modelId, kind, hasPassed, eValue, statistic, sample, atMs } = audit
  await sql.query(
    `INSERT INTO hoster_audit (hoster_id, model_id, kind, passed, e_value, statistic, sample, at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [hosterId, modelId, kind, hasPassed, eValue, statistic, sample, new Date(atMs)],
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

/** Audits of a model by one hoster that are compared with those of another: the latest. */
const COMPARED = 100

/** Returns how the other hosters of a model, and the references, answered their latest canaries. */
export async function canaryRecordOfOthers(sql: Sql, modelId: string, hosterId: string): Promise<CanaryRecord> {
  const { rows } = await sql.query<{ asked: number; failed: number }>(
    `SELECT coalesce(sum(sample), 0)::int AS asked, coalesce(sum(statistic), 0)::int AS failed FROM (
       SELECT sample, statistic FROM hoster_audit a
       WHERE model_id = $1 AND kind = 'canary' AND hoster_id IS DISTINCT FROM $2
         AND NOT EXISTS (SELECT FROM hoster h WHERE h.hoster_id = a.hoster_id AND h.quarantined_at IS NOT NULL)
       ORDER BY audit_id DESC LIMIT 5 * ${COMPARED}
     ) AS latest`,
    [modelId, hosterId],
  )
  return rows[0]!
}

/** Returns the latest distances that audits of one kind measured for a model, by hoster. */
export async function earlierDistances(sql: Sql, modelId: string, kind: SignalKind): Promise<Distances> {
  const { rows } = await sql.query<{ hoster_id: string; statistics: number[] }>(
    `SELECT hoster_id, array_agg(statistic) AS statistics FROM (
       SELECT hoster_id, statistic, row_number() OVER (PARTITION BY hoster_id ORDER BY audit_id DESC) AS place
       FROM hoster_audit
       WHERE model_id = $1 AND kind = $2 AND hoster_id NOT IN (SELECT hoster_id FROM hoster WHERE quarantined_at IS NOT NULL)
     ) AS latest WHERE place <= ${COMPARED} GROUP BY hoster_id`,
    [modelId, kind],
  )
  return new Map(rows.map(({ hoster_id, statistics }) => [hoster_id, statistics]))
}

/** Deletes audits that are older than 90 days. */
export async function pruneAudits(sql: Sql, nowMs: number): Promise<void> {
  await sql.query('DELETE FROM hoster_audit WHERE at < $1', [new Date(nowMs - 90 * 86_400_000)])
}
