import { durabilityWarnings } from '../base/db/durability.ts'
import { mayReplaceFunctions, mayRewriteLedger } from '../base/db/gateway-role.ts'
import type { Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import { joined, type Said, sentencesOf } from '../base/domain/said.ts'
import type { OperatorSystem } from '../wire/api/operator/system.ts'
import type { AlarmRules } from './alarms/alarms.ts'
import { isBackupDue, readBackupState } from './backup-state.ts'
import { lateJobWarning, readLateJob } from './late-job.ts'
import { listNodes } from './overview.ts'
import { readScheduledRun, type Schedule } from './scheduled-run.ts'
import { systemSentences } from './system-sentences.ts'
import { TIMETABLE_RUNS } from './timetable-runs.ts'

const say = sentencesOf(systemSentences)

type Check = OperatorSystem['checks'][number]

/** Returns nodes, checks of the database, and jobs. */
export async function readSystem(
  sql: Sql,
  {
    version,
    settings,
    rules: { backupHours, schedules },
    nowMs,
  }: {
    version: string
    settings: OperatorSystem['settings']
    rules: Pick<AlarmRules, 'backupHours' | 'schedules'>
    nowMs: number
  },
): Promise<OperatorSystem> {
  const [nodes, checks, jobs] = await Promise.all([
    listNodes(sql, nowMs),
    Promise.all([
      checkDurability(sql),
      checkRole(sql),
      checkClock(sql, nowMs),
      checkJobs(sql),
      checkBackups(sql, backupHours, nowMs),
      ...schedules.map(schedule => checkSchedule(sql, schedule)),
    ]),
    listJobs(sql),
  ])
  return { version, nodes, checks, jobs, settings }
}

function checkOf(check: string, state: Check['state'], { text, codes }: Said): Check {
  return { check, state, detail: text, detail_codes: codes }
}

async function checkDurability(sql: Sql): Promise<Check> {
  const warnings = await durabilityWarnings(sql)
  return warnings.length === 0
    ? checkOf('durability', 'ok', say('system.durability'))
    : checkOf('durability', 'warning', joined(...warnings))
}

async function checkRole(sql: Sql): Promise<Check> {
  const check = 'gateway role'
  if (await mayRewriteLedger(sql)) return checkOf(check, 'warning', say('system.role.one'))
  if (await mayReplaceFunctions(sql)) return checkOf(check, 'warning', say('system.role.functions'))
  return checkOf(check, 'ok', say('system.role'))
}

const CLOCK_OFF_MS = 2_000

async function checkClock(sql: Sql, nowMs: number): Promise<Check> {
  const { now } = await queryRow<{ now: Date }>(sql, 'SELECT now() AS now')
  const offMs = Math.abs(now.getTime() - nowMs)
  const seconds = (offMs / 1_000).toFixed(1)
  return checkOf('clock', offMs > CLOCK_OFF_MS ? 'warning' : 'ok', say('system.clock', { seconds }))
}

async function checkJobs(sql: Sql): Promise<Check> {
  const warning = lateJobWarning(await readLateJob(sql))
  return checkOf('jobs', warning === null ? 'ok' : 'warning', warning ?? say('system.jobs'))
}

async function checkBackups(sql: Sql, backupHours: number, nowMs: number): Promise<Check> {
  const check = 'backups'
  if (backupHours === 0) return checkOf(check, 'ok', say('system.backups.other'))
  const { lastMs, failure, test } = await readBackupState(sql)
  if (test !== null && test.problem !== null)
    return checkOf(check, 'failed', say('system.backups.unrestorable', { name: test.name, reason: test.problem }))
  if (failure !== null && failure.atMs > (lastMs ?? 0))
    return checkOf(check, 'warning', say('system.backups.failed', { reason: failure.reason }))
  const state = isBackupDue(lastMs, backupHours, nowMs) ? 'warning' : 'ok'
  if (lastMs === null) return checkOf(check, state, say('system.backups.none'))
  const last = say('system.backups.last', { at: new Date(lastMs).toISOString() })
  const tested = test === null ? say('system.backups.untested') : say('system.backups.tested', { name: test.name })
  return checkOf(check, state, joined(last, tested))
}

async function checkSchedule(sql: Sql, schedule: Schedule): Promise<Check> {
  const subject = schedule === 'usage_archive' ? 'archives' : 'exports'
  const check = `usage ${subject}`
  const run = await readScheduledRun(sql, schedule)
  if (run === null) return checkOf(check, 'ok', say(`system.${subject}.none`))
  if (run.problem !== null) return checkOf(check, 'warning', say(`system.${subject}.failed`, { reason: run.problem }))
  return checkOf(check, 'ok', say(`system.${subject}.last`, { at: new Date(run.atMs).toISOString() }))
}

async function listJobs(sql: Sql): Promise<OperatorSystem['jobs']> {
  const { rows } = await sql.query<{
    name: string
    waiting: bigint
    running: bigint
    failed: bigint
    lastError: string | null
    lastRunAt: Date | null
  }>(JOBS)
  return rows.map(({ name, waiting, running, failed, lastError, lastRunAt }) => ({
    name,
    waiting: Number(waiting),
    running: Number(running),
    failed: Number(failed),
    last_error: lastError,
    last_run_at: lastRunAt?.toISOString() ?? null,
  }))
}

const JOBS = `
SELECT name, coalesce(waiting, 0) AS waiting, coalesce(running, 0) AS running, coalesce(failed, 0) AS failed, "lastError", "lastRunAt"
FROM (
  SELECT task_identifier AS name, count(*) FILTER (WHERE locked_at IS NULL AND attempts < max_attempts) AS waiting,
    count(*) FILTER (WHERE locked_at IS NOT NULL) AS running,
    count(*) FILTER (WHERE locked_at IS NULL AND attempts >= max_attempts AND last_error IS NOT NULL) AS failed,
    left((array_agg(last_error ORDER BY updated_at DESC) FILTER (WHERE last_error IS NOT NULL))[1], 500) AS "lastError"
  FROM graphile_worker.jobs GROUP BY 1
) AS j
FULL JOIN (SELECT task AS name, at AS "lastRunAt" FROM ${TIMETABLE_RUNS} runs) AS c USING (name)
ORDER BY name`
