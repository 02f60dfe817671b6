import type { Scheduler } from '../../runtime/scheduler.ts'
import type { LastAudit } from './last-audit.ts'

/** Metrics are most wanted when something is wrong: they do not wait longer than this for PostgreSQL. */
const PATIENCE_MS = 1_000

/** The last audit by any node, read anew each time it is asked for; without an answer in time, as it was known before. Never rejects. */
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
    const { promise: late, resolve } = Promise.withResolvers<void>()
    const cancel = deps.scheduler.after(PATIENCE_MS, resolve)
    await Promise.race([reading, late])
    cancel()
    return known
  }
}
