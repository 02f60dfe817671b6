import type { Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { HOUR_MS } from '../base/domain/durations.ts'
import { type Nanos, usdText } from '../base/domain/money.ts'
import type { Offer } from '../base/domain/offer.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { listUnapprovedIds } from '../market/supply/hosters/model-ids.ts'
import { REPORT_AGE_MS_MAX } from '../market/supply/status/write-report.ts'
import { type LastAudit, readLastAudit } from '../money/ledger/audit/last-audit.ts'
import { countDifferences } from '../money/payments/read-differences.ts'
import { type PromotionState, readPromotionState } from '../money/payouts/promotions.ts'
import type { Alarm, Overview, ShownServer } from '../wire/api/operator/overview.ts'
import { type LateJob, lateJobWarning, readLateJob } from './late-job.ts'
import { readPlatformMoney, readSummedAt } from './platform-days.ts'
import { listServers } from './servers.ts'

/** An audit runs every five minutes, or nine times as long as the last one took. */
const AUDIT_LATE_MS = HOUR_MS
const AUDIT_PAUSE_FACTOR = 20
const SUMS_LATE_MS = 600_000

/**
 * Returns the state of the installation, with alarms, the worst first.
 *
 * @param promotionDayNanos the budget of a day for what promotion credit pays to hosters
 */
export async function readOverview(
  sql: Sql,
  offers: readonly Offer[],
  promotionDayNanos: Nanos,
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
    waitingGrants,
    differences,
    promotion,
    unapproved,
  ] = await Promise.all([
    readPlatformMoney(sql, nowMs),
    readSummedAt(sql),
    readLastAudit(sql),
    listNodes(sql, nowMs),
    listServers(sql, offers, nowMs),
    listFailedJobs(sql),
    readLateJob(sql),
    countWaitingGrants(sql),
    countDifferences(sql),
    readPromotionState(sql, nowMs),
    listUnapprovedIds(sql),
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
      servers,
      failedJobs,
      lateJob,
      waitingGrants,
      waitingModels,
      differences,
      promotion,
      promotionDayNanos,
      nodes,
      nowMs,
    }),
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

async function countWaitingGrants(sql: Sql): Promise<number> {
  const { count } = await queryRow<{ count: bigint }>(sql, "SELECT count(*) FROM grant_request WHERE state = 'waiting'")
  return Number(count)
}

function alarmsOf(facts: {
  readonly audit: LastAudit | undefined
  readonly summedAt: string | null
  readonly servers: readonly ShownServer[]
  readonly failedJobs: readonly string[]
  readonly lateJob: LateJob | undefined
  readonly waitingGrants: number
  readonly waitingModels: readonly string[]
  readonly differences: number
  readonly promotion: PromotionState
  readonly promotionDayNanos: Nanos
  readonly nodes: Overview['nodes']
  readonly nowMs: number
}): Alarm[] {
  const {
    audit,
    summedAt,
    servers,
    failedJobs,
    lateJob,
    waitingGrants,
    waitingModels,
    differences,
    promotion,
    promotionDayNanos,
    nowMs,
  } = facts
  const startedMs = Math.min(nowMs, ...facts.nodes.map(node => Date.parse(node.started_at)))
  const alarms: Alarm[] = []
  const add = (severity: Alarm['severity'], kind: Alarm['kind'], message: string, sinceMs: number | null = null) =>
    alarms.push({ kind, severity, message, since: sinceMs === null ? null : new Date(sinceMs).toISOString() })
  if (audit !== undefined && audit.violations > 0) {
    const found = `The last audit found ${audit.violations} violations in the ledger.`
    add('danger', 'audit_violations', `${found} For details, run: ${ownCommand('ledger audit')}`, audit.atEpochMs)
  }
  if (differences > 0) {
    const found = `The payment provider and the books differ in ${differences} charges, refunds or credits.`
    add('danger', 'payment_differences', `${found} For details, run: ${ownCommand('payments differences')}`)
  }
  const auditedMs = audit?.atEpochMs ?? startedMs
  if (nowMs - auditedMs > Math.max(AUDIT_LATE_MS, (audit?.elapsedMs ?? 0) * AUDIT_PAUSE_FACTOR)) {
    add('warn', 'audit_missing', 'The ledger was not audited lately. Check the log of the nodes.', auditedMs)
  }
  if (servers.length === 0) {
    add('danger', 'no_servers', 'No server is configured, so no request can be served. Add an endpoint.')
  }
  const late = lateJobWarning(lateJob)
  if (late !== null && lateJob !== undefined) add('danger', 'jobs_late', late, lateJob.sinceMs)
  for (const { name, model, state, ...server } of servers) {
    if (state === 'ejected') {
      add('warn', 'server_ejected', `${name} gets no requests for ${model}: it failed or asked for a pause.`)
    } else if (state === 'failing') {
      const { recent_attempts: attempts, recent_failed: failed } = server
      const recent = attempts === 0 ? 'the last attempts failed' : `${failed} of the last ${attempts} attempts failed`
      add('warn', 'server_failing', `${name} fails for ${model}: ${recent}.`)
    }
  }
  for (const task of failedJobs) add('warn', 'job_failed', `The job ${task} failed. Check the log of the nodes.`)
  const summedMs = summedAt === null ? startedMs : Date.parse(summedAt)
  if (nowMs - summedMs > SUMS_LATE_MS) {
    add('warn', 'sums_late', 'The sums over all customers are old: the job that writes them does not run.', summedMs)
  }
  if (waitingGrants > 0) add('warn', 'grants_waiting', `${waitingGrants} grants wait for a second operator.`)
  const { waitingReviews, yesterdayNanos } = promotion
  if (waitingReviews > 0) {
    const waits = `Promotional earnings of ${waitingReviews} hosters come from related customers and wait for a decision.`
    add('warn', 'promotion_reviews', `${waits} Decide on the page Payouts.`)
  }
  if (yesterdayNanos > promotionDayNanos) {
    const spent = `Yesterday, hosters earned ${usdText(yesterdayNanos)} USD from promotion credit.`
    add('warn', 'promotion_over_budget', `${spent} The budget of a day is ${usdText(promotionDayNanos)} USD.`)
  }
  if (waitingModels.length > 0) {
    const ids = waitingModels.slice(0, 3).join(', ')
    const what = `Hosters offer ${waitingModels.length} model ids that wait for your approval: ${ids}.`
    add('warn', 'models_waiting', `${what} See Models.`)
  }
  return alarms.toSorted((a, b) => Number(a.severity === 'warn') - Number(b.severity === 'warn'))
}
