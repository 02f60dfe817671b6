import { randomBytes } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { VerificationReport } from '../../wire/api/hoster-verification.ts'

/** The task of the job queue that verifies one hoster. */
export const VERIFY_HOSTER = 'verify_hoster'
/** The task of the job queue that probes the models of one hoster that wait for it. */
export const PROBE_MODELS = 'probe_hoster_models'

export interface StoredVerification {
  readonly nonce: string
  readonly checkedAt: Date | null
  readonly report: VerificationReport | null
}

/** Returns the verification of a hoster; undefined before it starts. */
export async function findVerification(sql: Sql, hosterId: string): Promise<StoredVerification | undefined> {
  const { rows } = await sql.query<StoredVerification>(
    'SELECT nonce, checked_at AS "checkedAt", report FROM hoster_verification WHERE hoster_id = $1',
    [hosterId],
  )
  return rows[0]
}

/** Starts the verification, or starts it again with the same nonce, and returns it. */
export async function startVerification(sql: Sql, hosterId: string, nowMs: number): Promise<StoredVerification> {
  return queryRow<StoredVerification>(
    sql,
    `INSERT INTO hoster_verification (hoster_id, nonce, started_at) VALUES ($1, $2, $3)
     ON CONFLICT (hoster_id) DO UPDATE SET started_at = EXCLUDED.started_at
     RETURNING nonce, checked_at AS "checkedAt", report`,
    [hosterId, `switchyard-${randomBytes(16).toString('hex')}`, new Date(nowMs)],
  )
}

/** Forgets the verification: another address needs another nonce. */
export async function forgetVerification(sql: Sql, hosterId: string): Promise<void> {
  await sql.query('DELETE FROM hoster_verification WHERE hoster_id = $1', [hosterId])
}

/** Notes what a check found. Returns false when the verification was started for another address meanwhile. */
export async function noteReport(
  sql: Sql,
  { hosterId, nonce, report, nowMs }: { hosterId: string; nonce: string; report: VerificationReport; nowMs: number },
): Promise<boolean> {
  const { rowCount } = await sql.query(
    'UPDATE hoster_verification SET report = $3, checked_at = $4 WHERE hoster_id = $1 AND nonce = $2',
    [hosterId, nonce, JSON.stringify(report), new Date(nowMs)],
  )
  return rowCount === 1
}

/** Notes that the hoster proved to control its server. */
export async function notePassedChallenge(sql: Sql, hosterId: string, nowMs: number): Promise<void> {
  await sql.query(
    'UPDATE hoster_endpoint SET challenge_passed_at = $2 WHERE hoster_id = $1 AND challenge_passed_at IS NULL',
    [hosterId, new Date(nowMs)],
  )
}

/**
 * Puts the check of a hoster into the job queue, once however often it is asked for. It runs after `delayS` seconds.
 */
export async function enqueueVerification(sql: Sql, hosterId: string, delayS = 0): Promise<void> {
  await sql.query(
    `SELECT graphile_worker.add_job($1, payload := json_build_object('hoster_id', $2::text), job_key := 'verify-hoster-' || $2::text,
       max_attempts := 3, run_at := now() + make_interval(secs => $3))`,
    [VERIFY_HOSTER, hosterId, delayS],
  )
}

/** Puts the probes of a hoster's waiting models into the job queue, once however often it is asked for. */
export async function enqueueProbes(sql: Sql, hosterId: string): Promise<void> {
  await sql.query(
    `SELECT graphile_worker.add_job($1, payload := json_build_object('hoster_id', $2::text), job_key := 'probe-models-' || $2::text,
       max_attempts := 3)`,
    [PROBE_MODELS, hosterId],
  )
}

/** Notes the probes of some models among those of the last check. Lock the hoster first. */
export async function noteProbes(
  sql: Sql,
  { hosterId, probes, nowMs }: { hosterId: string; probes: VerificationReport['probes']; nowMs: number },
): Promise<void> {
  const { nonce, report } = (await findVerification(sql, hosterId)) ?? (await startVerification(sql, hosterId, nowMs))
  // A hoster that the operator added was never checked, but it has a manifest with prices within the bounds.
  const base = report ?? { manifest: PASSED, prices: PASSED, probes: [], challenge_problem: null }
  const others = base.probes.filter(({ model }) => !probes.some(each => each.model === model))
  await noteReport(sql, { hosterId, nonce, report: { ...base, probes: [...others, ...probes] }, nowMs })
}

/** The result of a check without a problem. */
export const PASSED = { passed: true, problem: null }
