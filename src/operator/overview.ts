import type { Sql } from '../base/db/pool.ts'
import type { Offer } from '../base/domain/offer.ts'
import { listUnapprovedIds } from '../market/supply/hosters/model-ids.ts'
import { REPORT_AGE_MS_MAX } from '../market/supply/status/write-report.ts'
import { readLastAudit } from '../money/ledger/audit/last-audit.ts'
import { countDifferences } from '../money/payments/read-differences.ts'
import { readPromotionState } from '../money/payouts/promotions.ts'
import type { Overview } from '../wire/api/operator/overview.ts'
import { type AlarmRules, alarmsOf } from './alarms/alarms.ts'
import { readInstallationState } from './alarms/installation-state.ts'
import { readLateJob } from './late-job.ts'
import { readPlatformMoney, readSummedAt } from './platform-days.ts'
import { listServers } from './servers.ts'
import { countWaiting, showWaiting } from './waiting.ts'

/** Returns the state of the installation, with alarms, the worst first. */
export async function readOverview(
  sql: Sql,
  offers: readonly Offer[],
  rules: AlarmRules,
  nowMs: number,
): Promise<Overview> {
  const [
    money,
    summedAt,
    audit,
    nodes,
    servers,
    failedJobs,
    lateJob,
    waiting,
    differences,
    promotion,
    unapproved,
    state,
  ] = await Promise.all([
    readPlatformMoney(sql, nowMs),
    readSummedAt(sql),
    readLastAudit(sql),
    listNodes(sql, nowMs),
    listServers(sql, offers, nowMs),
    listFailedJobs(sql),
    readLateJob(sql),
    countWaiting(sql, nowMs),
    countDifferences(sql),
    readPromotionState(sql, nowMs),
    listUnapprovedIds(sql),
    readInstallationState(sql, nowMs),
  ])
  const waitingModels = unapproved
    .filter(({ state, hosters }) => state === 'waiting' && hosters.some(({ isActive }) => isActive))
    .map(({ modelId }) => modelId)
  return {
    as_of: new Date(nowMs).toISOString(),
    ...money,
    summed_at: summedAt,
    last_audit:
      audit === undefined
        ? null
        : {
            at: new Date(audit.atEpochMs).toISOString(),
            elapsed_ms: audit.elapsedMs,
            violations: audit.violations,
          },
    nodes,
    alarms: alarmsOf({
      audit,
      summedAt,
      offers,
      servers,
      failedJobs,
      lateJob,
      waitingGrants: waiting.grants,
      waitingModels,
      differences,
      promotion,
      nodes,
      ...state,
      rules,
      nowMs,
    }),
    waiting: showWaiting(waiting, waitingModels.length),
    servers,
  }
}

/** Returns the nodes, the oldest first. */
export async function listNodes(sql: Sql, nowMs: number): Promise<Overview['nodes']> {
  const { rows } = await sql.query<{
    id: string
    startedAt: Date
    isAlive: boolean
    version: string | null
    at: Date | null
  }>(
    `SELECT n.node_id AS id, started_at AS "startedAt", h.node_id IS NOT NULL AS "isAlive", version, at
       FROM node n LEFT JOIN node_heartbeat h USING (node_id) LEFT JOIN node_report r USING (node_id)
      ORDER BY started_at, n.node_id`,
  )
  return rows.map(({ id, startedAt, isAlive, version, at }) => ({
    id,
    started_at: startedAt.toISOString(),
    state: !isAlive ? 'dead' : nowMs - (at ?? startedAt).getTime() > REPORT_AGE_MS_MAX ? 'silent' : 'alive',
    version,
    reported_at: at?.toISOString() ?? null,
  }))
}

/** Returns the names of jobs that gave up after their last attempt. */
async function listFailedJobs(sql: Sql): Promise<string[]> {
  const { rows } = await sql.query<{ task: string }>(
    'SELECT DISTINCT task_identifier AS task FROM graphile_worker.jobs WHERE last_error IS NOT NULL AND attempts >= max_attempts ORDER BY 1',
  )
  return rows.map(({ task }) => task)
}
