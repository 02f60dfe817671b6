import type { Scheduler } from '../../runtime/scheduler.ts'
import type { LastAudit } from './last-audit.ts'

/** Metrics matter most during an outage, so they wait no longer than this for PostgreSQL. */
const READ_TIMEOUT_MS = 1_000

/**
 * Returns a function that reads the last audit of any node. Without an answer in time, it returns the last
 * known result. It never rejects.
 */
export function createLastAuditView(deps: {
  read: () => Promise<LastAudit | undefined>
  scheduler: Pick<Scheduler, 'after'>
}): () => Promise<LastAudit | undefined> {
  let known: LastAudit | undefined
  let reading: Promise<void> | undefined
  return async () => {
    reading ??= deps
      .read()
      .then(
        latest => {
          known = latest
        },
        () => {},
      )
      .finally(() => {
        reading = undefined
      })
    const { promise: timeout, resolve } = Promise.withResolvers<void>()
    const cancel = deps.scheduler.after(READ_TIMEOUT_MS, resolve)
    await Promise.race([reading, timeout])
    cancel()
    return known
  }
}
