import { type Pool, type Sql, transaction } from '../../../base/db/pool.ts'
import { COMPARISONS } from '../../supply/newcomers/read-hoster-records.ts'
import { COMPARED_SOONER } from './audit-hoster.ts'
import { readDensities } from './read-densities.ts'

/** The task of the job queue that audits one endpoint. */
export const AUDIT_HOSTER = 'audit_hoster'

export interface AuditSchedule {
  readonly nowMs: number
  readonly meanPauseMs: number
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** Draws the time between two requests of customers, ms. */
  readonly drawGapMs: () => number
  /** The models that a reference serves. */
  readonly referenceModels: readonly string[]
}

/**
 * Plans the audits of the next two minutes: one job each, at a random second. The pauses between the audits of an
 * endpoint are drawn from an exponential distribution, so that no hoster can tell from the last one when the next
 * comes. They are shorter while its models have more traffic than usual, and until it was compared with a reference
 * often enough. Returns the number of jobs.
 */
export function scheduleAudits(pool: Pool, schedule: AuditSchedule): Promise<number> {
  const { nowMs } = schedule
  return transaction(pool, async sql => {
    const due = await readDue(sql, schedule)
    if (due.length === 0) return 0
    const densities = await readDensities(
      sql,
      due.map(({ endpointId }) => endpointId),
      nowMs,
    )
    let jobs = 0
    for (const { endpointId, nextAuditAt, needsComparison } of due) {
      const density = (densities.get(endpointId) ?? 1) * (needsComparison ? COMPARED_SOONER : 1)
      const pauseMs = drawPauseMs(schedule, density)
      const atMs = Math.max(nowMs, nextAuditAt === null ? nowMs + pauseMs : nextAuditAt.getTime())
      if (nextAuditAt !== null) {
        jobs++
        await sql.query(
          `SELECT graphile_worker.add_job($1, payload := json_build_object('endpoint_id', $2::text), run_at := $3, max_attempts := 1)`,
          [AUDIT_HOSTER, endpointId, new Date(atMs)],
        )
      }
      const nextMs = nextAuditAt === null ? atMs : atMs + pauseMs
      await sql.query('UPDATE hoster_endpoint SET next_audit_at = $2 WHERE endpoint_id = $1', [
        endpointId,
        new Date(nextMs),
      ])
    }
    return jobs
  })
}

function drawPauseMs({ meanPauseMs, random, drawGapMs }: AuditSchedule, density: number): number {
  const pauseMs = (meanPauseMs / density) * Math.min(PAUSE_MAX, -Math.log(1 - random()))
  // Two requests of customers are seldom closer to each other. A gap may be longer than the mean pause, but must not
  // make audits rare.
  return Math.max(pauseMs, Math.min(drawGapMs(), meanPauseMs / 4))
}

interface Due {
  readonly endpointId: string
  /** Null: of a new endpoint. */
  readonly nextAuditAt: Date | null
  /** It offers a model of the operator, and was not compared often enough. */
  readonly needsComparison: boolean
}

async function readDue(sql: Sql, { nowMs, referenceModels }: AuditSchedule): Promise<Due[]> {
  const { rows } = await sql.query<Due>(
    `SELECT e.endpoint_id AS "endpointId", e.next_audit_at AS "nextAuditAt", EXISTS (
         SELECT FROM hoster_price p LEFT JOIN hoster_comparison c ON c.hoster_id = e.hoster_id AND c.model_id = p.model_id
          WHERE p.endpoint_id = e.endpoint_id AND p.valid_until IS NULL AND p.model_id = ANY ($2) AND coalesce(c.passes, 0) < $3
       ) AS "needsComparison"
       FROM hoster_endpoint e JOIN hoster h USING (hoster_id)
      WHERE h.state = 'active' AND (e.next_audit_at IS NULL OR e.next_audit_at < $1)
      ORDER BY e.endpoint_id FOR UPDATE OF e SKIP LOCKED`,
    [new Date(nowMs + AHEAD_MS), referenceModels, COMPARISONS],
  )
  return rows
}

/** The longest pause, in mean pauses. */
const PAUSE_MAX = 4
const AHEAD_MS = 120_000
