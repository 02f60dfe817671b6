import { type Pool, type Sql, transaction } from '../../base/db/pool.ts'
import type { Log } from '../../base/runtime/log.ts'
import { createPeriodicWork } from '../../base/runtime/periodic-work.ts'
import type { Scheduler } from '../../base/runtime/scheduler.ts'
import type { Alarm } from '../../wire/api/operator/overview.ts'
import { deliverNotice, enqueueNotices, type NoticeDeps, noticesOf, operatorAddresses } from './alarm-notice.ts'
import { waitingKinds } from './alarms.ts'
import { noteAlarms } from './note-alarms.ts'

/** Notifies operators when alarms begin and end. */
export interface AlarmWatch {
  /** Checks now and returns how many alarms began or ended. Rejects when the database is unavailable. */
  check(): Promise<number>
  start(): void
  stop(): Promise<void>
}

const EVERY_MS = 15_000

/** Checks every 15 seconds, on one node at a time. */
export function createAlarmWatch(deps: {
  readonly pool: Pool
  readonly readAlarms: () => Promise<readonly Alarm[]>
  readonly notices: NoticeDeps
  readonly sendsMail: boolean
  /** Where links lead. */
  readonly baseUrl: () => string
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'>
  readonly everyMs?: number
}): AlarmWatch {
  const { pool, notices, scheduler, log, everyMs = EVERY_MS } = deps

  async function check(): Promise<number> {
    if (!(await claimCheck(pool, everyMs))) return 0
    const alarms = (await deps.readAlarms()).filter(({ kind }) => !waitingKinds.has(kind))
    // The queue that delivers the others is what this alarm is about.
    const isDirect = alarms.some(({ kind }) => kind === 'jobs_late')
    const { changes, written } = await transaction(pool, async sql => {
      const changes = await noteAlarms(sql, alarms, scheduler.epochMs())
      const written = noticesOf(changes, alarms, {
        operators: deps.sendsMail && changes.length > 0 ? await operatorAddresses(sql) : [],
        hasWebhook: notices.webhook !== null,
        baseUrl: deps.baseUrl(),
      })
      if (!isDirect) await enqueueNotices(sql, written)
      return { changes, written }
    })
    if (isDirect) {
      for (const notice of written) {
        const { outcome, error } = await deliverNotice(notices, notice)
        if (outcome === 'failed') log.warn({ noticeId: notice.id, error }, 'a notice of an alarm was not delivered')
      }
    }
    for (const { key, isOver, message } of changes) {
      log.warn({ alarm: key, isOver, message }, isOver ? 'an alarm is over' : 'an alarm began')
    }
    return changes.length
  }

  const checking = createPeriodicWork({
    work: check,
    everyMs,
    failure: 'could not check for alarms; trying again',
    scheduler,
    log,
  })
  return { check, start: checking.start, stop: checking.stop }
}

/** Whether this node must check: no other has just done it. */
async function claimCheck(sql: Sql, everyMs: number): Promise<boolean> {
  const { rowCount } = await sql.query(
    `INSERT INTO installation AS i (name, value) VALUES ('alarms_checked', now()::text)
     ON CONFLICT (name) DO UPDATE SET value = excluded.value
      -- A time in the future was written before the clock was set back. Do not wait for it.
      WHERE i.value::timestamptz <= now() - make_interval(secs => $1) OR i.value::timestamptz > now() + make_interval(secs => $1)`,
    // Slightly less than the interval: otherwise a check that runs a moment early would be skipped.
    [(everyMs / 1000) * 0.9],
  )
  return rowCount === 1
}
