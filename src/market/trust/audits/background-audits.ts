import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import type { AuditEndpoint } from './audit-hoster.ts'

/**
 * Runs audits that ask one request minutes after another. The job queue has few workers, so a job ends when its audit
 * pauses for the first time, and the rest of the audit goes on here.
 */
export class BackgroundAudits {
  readonly #audit: AuditEndpoint
  readonly #after: Scheduler['after']
  readonly #pauseMsMax: number
  readonly #log: Pick<Log, 'warn'>
  readonly #running = new Set<Promise<void>>()
  readonly #pauses = new Set<() => void>()
  #isStopping = false

  /** @param pauseMsMax the longest pause */
  constructor(
    audit: AuditEndpoint,
    { after, pauseMsMax, log }: { after: Scheduler['after']; pauseMsMax: number; log: Pick<Log, 'warn'> },
  ) {
    this.#audit = audit
    this.#after = after
    this.#pauseMsMax = pauseMsMax
    this.#log = log
  }

  /** Starts an audit of an endpoint. Resolves when it has ended, or pauses; rejects if it fails before. */
  async start(endpointId: string): Promise<void> {
    const { promise: paused, resolve } = Promise.withResolvers<void>()
    let hasPaused = false
    const audit = this.#audit(endpointId, ms => {
      hasPaused = true
      resolve()
      return this.#pause(ms)
    })
    const running = audit
      .catch(error => {
        if (!hasPaused) throw error
        this.#log.warn({ err: error, endpointId }, 'an audit of a hoster failed')
      })
      .finally(() => this.#running.delete(running))
    this.#running.add(running)
    await Promise.race([running, paused])
  }

  /** Ends all pauses, and waits for the audits. */
  async stop(): Promise<void> {
    this.#isStopping = true
    for (const end of this.#pauses) end()
    await Promise.allSettled(this.#running)
  }

  #pause(ms: number): Promise<void> {
    if (this.#isStopping) return Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    const cancel = this.#after(Math.min(ms, this.#pauseMsMax), end)
    const pauses = this.#pauses
    function end() {
      pauses.delete(end)
      cancel()
      resolve()
    }
    pauses.add(end)
    return promise
  }
}
