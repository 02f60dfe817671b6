import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import type { LedgerStore } from '../ledger-store.ts'

export interface UnconfirmedLeasesDeps {
  readonly store: Pick<LedgerStore, 'release' | 'handBack'>
  readonly scheduler: Scheduler
  /** Called when a strict lease of the customer has ended: what it held is free. */
  readonly onEnded?: (customerId: string) => void
  readonly log: Pick<Log, 'warn'> | undefined
}

/** PostgreSQL may run a statement this long after its connection broke. Its own timeouts are far shorter. */
export const UNCONFIRMED_WATCH_MS = 60_000
const SWEEP_MS = 1_000
const RELEASES_MAX = 1_000
/** More slots than any lease has: PostgreSQL's largest integer. All slots of the lease then stay counted. */
export const ALL_SLOTS = 2_147_483_647

/**
 * The strict leases in use, and leases that PostgreSQL may grant although nothing on this node will use them: the
 * connection broke after their statement was sent. Once a second the node releases those that exist by then, until
 * PostgreSQL can no longer be running the statement.
 */
export class UnconfirmedLeases {
  readonly #deps: UnconfirmedLeasesDeps
  /** The strict leases of running and uncommitted requests. */
  readonly #inUse = new Set<string>()
  /** By request id: when the request was given up, or undefined while it still runs. */
  readonly #strict = new Map<string, number | undefined>()
  /** By lease id. A lease may be granted again after it was handed back. */
  readonly #bulk = new Map<string, { readonly isUnwanted: () => boolean; readonly sinceMs: number }>()
  #cancelSweep: () => void = noop
  #isSweepScheduled = false
  #isStopped = false

  constructor(deps: UnconfirmedLeasesDeps) {
    this.#deps = deps
  }

  /**
   * Notes that the admission of this request was sent and its answer was lost. The request continues, and uses the
   * lease if there is one.
   */
  track(requestId: string): void {
    this.#strict.set(requestId, undefined)
  }

  isTracked(requestId: string): boolean {
    return this.#strict.has(requestId)
  }

  /** Notes that a request uses its strict lease, until `ended`. */
  use(requestId: string): void {
    this.#inUse.add(requestId)
  }

  /** Notes that a request with a strict lease, or with none, is settled. */
  ended(requestId: string, customerId: string): void {
    this.#inUse.delete(requestId)
    if (this.isTracked(requestId)) this.abandon(requestId)
    this.#deps.onEnded?.(customerId)
  }

  /** Whether this strict lease is in use, or a statement in flight may create this lease, strict or bulk. */
  has(leaseId: string): boolean {
    return this.#inUse.has(leaseId) || this.#strict.has(leaseId) || this.#bulk.has(leaseId)
  }

  /** Notes that nothing will use the strict lease of this request, so that it is released as soon as it exists. */
  abandon(requestId: string): void {
    this.#strict.set(requestId, this.#deps.scheduler.monotonicMs())
    this.#scheduleSweep()
  }

  /**
   * Notes that this bulk lease was requested and the answer was lost. Each sweep calls `isUnwanted` and hands the
   * lease back if it returns true.
   */
  trackGrant(leaseId: string, isUnwanted: () => boolean): void {
    this.#bulk.set(leaseId, { isUnwanted, sinceMs: this.#deps.scheduler.monotonicMs() })
    this.#scheduleSweep()
  }

  /** Releases every unwanted lease that exists now. */
  async sweep(): Promise<void> {
    await Promise.all([this.#sweepStrict(), this.#sweepBulk()])
  }

  stop(): void {
    this.#isStopped = true
    this.#cancelSweep()
    this.#strict.clear()
    this.#bulk.clear()
  }

  #scheduleSweep(): void {
    if (this.#isSweepScheduled || this.#isStopped) return
    this.#isSweepScheduled = true
    this.#cancelSweep = this.#deps.scheduler.after(SWEEP_MS, async () => {
      await this.sweep()
      this.#isSweepScheduled = false
      if (this.#bulk.size > 0) this.#scheduleSweep()
      for (const abandonedMs of this.#strict.values()) {
        if (abandonedMs === undefined) continue
        this.#scheduleSweep()
        break
      }
    })
  }

  async #sweepStrict(): Promise<void> {
    const { store, scheduler, log } = this.#deps
    const strict = this.#strict
    const abandoned: string[] = []
    for (const [requestId, abandonedMs] of strict) {
      if (abandonedMs !== undefined && abandoned.push(requestId) === RELEASES_MAX) break
    }
    if (abandoned.length === 0) return
    // Taken before the statement is sent. This process may pause before it reads the answer, and a lease may
    // be granted in that time.
    const expiredMs = scheduler.monotonicMs() - UNCONFIRMED_WATCH_MS
    try {
      const outcomes = await store.release(abandoned)
      for (const requestId of abandoned) {
        const abandonedMs = strict.get(requestId)
        strict.delete(requestId)
        // Goes to the end of the map. A lease that was released is tracked again too, since its admission may
        // have been sent twice.
        const isOver = abandonedMs === undefined || (abandonedMs <= expiredMs && outcomes.get(requestId) !== 'locked')
        if (!isOver) strict.set(requestId, abandonedMs)
      }
    } catch (error) {
      log?.warn(
        { err: error, leases: abandoned.length },
        'leases of abandoned admissions could not be released; trying again',
      )
    }
  }

  async #sweepBulk(): Promise<void> {
    const { store, scheduler, log } = this.#deps
    const unwanted: string[] = []
    const expiredMs = scheduler.monotonicMs() - UNCONFIRMED_WATCH_MS
    for (const [leaseId, { isUnwanted }] of this.#bulk) if (isUnwanted()) unwanted.push(leaseId)
    try {
      // The number of used slots is not known any more, so all of them stay counted.
      const returns = unwanted.map(leaseId => ({ leaseId, keepNanos: null, slotsUsed: ALL_SLOTS }))
      const locked = returns.length > 0 ? await store.handBack(returns, true) : new Set()
      for (const [leaseId, { sinceMs }] of this.#bulk)
        if (sinceMs <= expiredMs && !locked.has(leaseId)) this.#bulk.delete(leaseId)
    } catch (error) {
      log?.warn({ err: error, leases: unwanted.length }, 'abandoned bulk leases could not be handed back; trying again')
    }
  }
}

const noop = () => {}
