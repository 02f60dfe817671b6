import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'

/** A full disk refuses every record, and the log is often on the same disk. */
const LOG_EVERY_MS = 10_000

/**
 * Logs that the journal refuses records: at most once in ten seconds, with the number of records since the
 * last line.
 */
export function createJournalRefusalLog(
  scheduler: Pick<Scheduler, 'monotonicMs'>,
  log: Pick<Log, 'error'> | undefined,
): (failure: unknown) => void {
  let records = 0
  let loggedMs = -Infinity
  return failure => {
    records++
    const nowMs = scheduler.monotonicMs()
    if (nowMs < loggedMs + LOG_EVERY_MS) return
    log?.error({ err: failure, records }, 'the journal refuses records; answers wait until their charges are committed')
    records = 0
    loggedMs = nowMs
  }
}
