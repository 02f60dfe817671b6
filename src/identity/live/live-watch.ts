import type { Sql } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import type { Log } from '../../base/runtime/log.ts'
import type { Scheduler } from '../../base/runtime/scheduler.ts'
import { hasEnded } from '../people/sessions.ts'
import { readLiveStates, type StoredState } from './read-live-states.ts'

export interface WatchOrder {
  readonly sessionId: string
  readonly personId: string
  readonly customerId: string
}

export interface LiveListener {
  /** Called with the first state, and whenever it has changed. */
  onState(state: StoredState): void
  /** Called once, instead of any further state: the session has ended, or the node stops. */
  onEnd(reason: EndReason): void
}

export type EndReason = 'session_ended' | 'stopping'

/** Watches customers for the pages that are open on this node. */
export interface LiveWatch {
  /**
   * Calls the listener until the returned function is called. Throws `rate_limit_exceeded` when the person, or the
   * node, has too many pages open.
   */
  watch(order: WatchOrder, listener: LiveListener): () => void
  /** Ends all watches; resolves when no query runs. */
  stop(): Promise<void>
}

const INTERVAL_MS = 1_000
/** Each open page has a socket. A person has a few pages open, in a few browsers. */
const WATCHES_OF_PERSON_MAX = 12
const WATCHES_MAX = 1_000

/**
 * Asks PostgreSQL once a second, in one query for all customers that are watched on this node, and not at all without
 * watchers. Settlements notify nobody: NOTIFY takes a lock of the whole server at commit, and poolers do not carry it.
 */
export function createLiveWatch(deps: {
  readonly sql: Sql
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'>
}): LiveWatch {
  return new PollingWatch(deps)
}

interface Watch {
  readonly order: WatchOrder
  readonly listener: LiveListener
  /** The state that the listener got last, as text. */
  shown: string | undefined
}

class PollingWatch implements LiveWatch {
  readonly #deps: Parameters<typeof createLiveWatch>[0]
  readonly #watches = new Set<Watch>()
  #cancelTimer: (() => void) | undefined
  #running: Promise<void> | undefined
  #lastPollMs = -Infinity
  #isStopped = false

  constructor(deps: Parameters<typeof createLiveWatch>[0]) {
    this.#deps = deps
  }

  watch(order: WatchOrder, listener: LiveListener): () => void {
    this.#requireRoom(order.personId)
    const watch: Watch = { order, listener, shown: undefined }
    this.#watches.add(watch)
    this.#schedule()
    return () => {
      this.#watches.delete(watch)
      if (this.#watches.size === 0) this.#cancel()
    }
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancel()
    for (const watch of this.#watches) this.#end(watch, 'stopping')
    await this.#running
  }

  #requireRoom(personId: string): void {
    const own = this.#watches.values().filter(({ order }) => order.personId === personId)
    if (this.#watches.size < WATCHES_MAX && own.toArray().length < WATCHES_OF_PERSON_MAX && !this.#isStopped) return
    throw new ApiError('rate_limit_exceeded', {
      message: sayRefusal('refusal.too_many_pages'),
      retryAfterS: 10,
    })
  }

  /** Plans the next query: a second after the last one, at once for the first watcher. */
  #schedule(): void {
    if (this.#isStopped || this.#watches.size === 0) return
    if (this.#cancelTimer !== undefined || this.#running !== undefined) return
    const { scheduler } = this.#deps
    const waitMs = Math.max(0, this.#lastPollMs + INTERVAL_MS - scheduler.monotonicMs())
    this.#cancelTimer = scheduler.after(waitMs, () => {
      this.#cancelTimer = undefined
      this.#lastPollMs = scheduler.monotonicMs()
      this.#running = this.#poll().finally(() => {
        this.#running = undefined
        this.#schedule()
      })
    })
  }

  #cancel(): void {
    this.#cancelTimer?.()
    this.#cancelTimer = undefined
  }

  /** Never rejects. Without an answer the pages keep what they show. */
  async #poll(): Promise<void> {
    const asked = [...this.#watches]
    const { sql, scheduler, log } = this.#deps
    try {
      const { states, sessions } = await readLiveStates(sql, distinct(asked))
      for (const watch of asked) {
        if (!this.#watches.has(watch)) continue
        const { sessionId, customerId } = watch.order
        const session = sessions.get(`${sessionId} ${customerId}`)
        const state = states.get(customerId)
        if (session === undefined || state === undefined || hasEnded(session, scheduler.epochMs()))
          this.#end(watch, 'session_ended')
        else show(watch, state)
      }
    } catch (error) {
      log.warn({ err: error }, 'the state of open console pages could not be read; trying again')
    }
  }

  #end(watch: Watch, reason: EndReason): void {
    this.#watches.delete(watch)
    watch.listener.onEnd(reason)
  }
}

function show(watch: Watch, state: StoredState): void {
  const text = JSON.stringify(state)
  if (text === watch.shown) return
  watch.shown = text
  watch.listener.onState(state)
}

/** Several pages of one session may watch the same customer. */
function distinct(watches: readonly Watch[]): WatchOrder[] {
  return [...new Map(watches.map(({ order }) => [`${order.sessionId} ${order.customerId}`, order])).values()]
}
