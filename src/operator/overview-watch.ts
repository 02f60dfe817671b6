import type { Sql } from '../base/db/pool.ts'
import { ApiError } from '../base/domain/errors.ts'
import { sayRefusal } from '../base/domain/refusals.ts'
import type { Log } from '../base/runtime/log.ts'
import type { Scheduler } from '../base/runtime/scheduler.ts'
import type { Overview } from '../wire/api/operator/overview.ts'

export interface OverviewListener {
  /** Called with the first overview, and whenever it has changed. */
  onChange(overview: Overview): void
  /** Called once, instead of any further change: the session has ended, or the node stops. */
  onEnd(reason: 'session_ended' | 'stopping'): void
}

/** Reads the overview for all pages of operators that are open on this node, and not at all without any. */
export interface OverviewWatch {
  /**
   * Calls the listener until the returned function is called. Throws `rate_limit_exceeded` when too many pages are
   * open.
   */
  watch(sessionId: string, listener: OverviewListener): () => void
  stop(): Promise<void>
}

const EVERY_MS = 2_000
const WATCHES_MAX = 100

export function createOverviewWatch(deps: {
  readonly sql: Sql
  readonly read: () => Promise<Overview>
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'>
  readonly everyMs?: number
}): OverviewWatch {
  const { sql, scheduler, log, everyMs = EVERY_MS } = deps
  const watches = new Set<{ readonly sessionId: string; readonly listener: OverviewListener; shown: string | null }>()
  let cancel: (() => void) | undefined
  let running: Promise<void> | undefined
  let isStopped = false

  async function poll(): Promise<void> {
    try {
      const asked = [...watches]
      const [overview, open] = await Promise.all([deps.read(), openSessions(sql, asked, scheduler.epochMs())])
      // The time of the answer alone is no change.
      const shown = JSON.stringify({ ...overview, as_of: null })
      for (const watch of asked) {
        if (!watches.has(watch)) continue
        if (!open.has(watch.sessionId)) {
          watches.delete(watch)
          watch.listener.onEnd('session_ended')
        } else if (watch.shown !== shown) {
          watch.shown = shown
          watch.listener.onChange(overview)
        }
      }
    } catch (error) {
      log.warn({ err: error }, 'the overview of open console pages could not be read; trying again')
    }
  }

  function schedule(waitMs: number): void {
    if (isStopped || watches.size === 0 || cancel !== undefined || running !== undefined) return
    cancel = scheduler.after(waitMs, () => {
      cancel = undefined
      running = poll().finally(() => {
        running = undefined
        schedule(everyMs)
      })
    })
  }

  return {
    watch(sessionId, listener) {
      if (isStopped || watches.size >= WATCHES_MAX) {
        throw new ApiError('rate_limit_exceeded', {
          message: sayRefusal('refusal.too_many_pages'),
          retryAfterS: 10,
        })
      }
      const watch = { sessionId, listener, shown: null }
      watches.add(watch)
      // A page that opens while others are shown waits for the next reading.
      schedule(0)
      return () => watches.delete(watch)
    },
    async stop() {
      isStopped = true
      cancel?.()
      for (const { listener } of watches) listener.onEnd('stopping')
      watches.clear()
      await running
    },
  }
}

/** The idle time of people with a role on the installation, as in src/identity/people/sessions.ts. */
const IDLE_MS = 43_200_000

/** Returns which of these sessions still belong to an operator or auditor. */
async function openSessions(
  sql: Sql,
  watches: readonly { readonly sessionId: string }[],
  nowMs: number,
): Promise<ReadonlySet<string>> {
  const { rows } = await sql.query<{ id: string }>(
    `SELECT session_id AS id FROM person_session JOIN person USING (person_id)
      WHERE session_id = ANY ($1) AND expires_at > $2 AND last_seen_at > $3 AND disabled_at IS NULL AND installation_role IS NOT NULL`,
    [watches.map(({ sessionId }) => sessionId), new Date(nowMs), new Date(nowMs - IDLE_MS)],
  )
  return new Set(rows.map(({ id }) => id))
}
