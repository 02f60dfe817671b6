import type { Scheduler } from './scheduler.ts'

/** Metrics matter most during an outage, so they wait no longer than this for PostgreSQL. */
const READ_TIMEOUT_MS = 1_000

/**
 * Returns a function that reads a value, such as the last audit of any node. Without an answer in time, it returns the
 * last known value. It never rejects.
 */
export function createLastKnown<Value>(deps: {
  read: () => Promise<Value | undefined>
  scheduler: Pick<Scheduler, 'after'>
}): () => Promise<Value | undefined> {
  let known: Value | undefined
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
