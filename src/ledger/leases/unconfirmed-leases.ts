import type { Log } from '../../runtime/log.ts'
import type { Scheduler } from '../../runtime/scheduler.ts'
import type { LedgerStore } from '../ledger-store.ts'

/**
 * Leases that may come to exist although nobody here wants them: their statement was sent, the connection broke, and PostgreSQL may carry it out
 * for a while yet. They are looked for and given back, once a second, until that while is over.
 */
export interface UnconfirmedLeases {
  /** The admission of this request was sent and nobody heard the answer. The request goes on, so its lease is in use, if there is one. */
  suspect(requestId: string): void
  isSuspect(requestId: string): boolean
  /** Nobody wants the strict lease of this request: from now on it is looked for. */
  bury(requestId: string): void
  /** The grant of this bulk lease was sent and nobody heard the answer. `isUnwanted` is asked each time it is looked for. */
  suspectGrant(leaseId: string, isUnwanted: () => boolean): void
  /** Looks for all of them now. */
  sweep(): Promise<void>
  stop(): void
}

export interface UnconfirmedLeasesDeps {
  readonly store: Pick<LedgerStore, 'release' | 'handBack'>
  readonly scheduler: Scheduler
  readonly log: Pick<Log, 'warn'> | undefined
}

/** A statement that was sent before its connection broke may still run this long: PostgreSQL's own timeouts are far shorter. */
export const UNCONFIRMED_WATCH_MS = 60_000
const GHOST_SWEEP_MS = 1_000
const GHOSTS_SWEPT_MAX = 1_000
/** More than any lease has; PostgreSQL's largest integer. */
const SLOTS_ALL = 2_147_483_647

export function createUnconfirmedLeases({ store, scheduler, log }: UnconfirmedLeasesDeps): UnconfirmedLeases {
  /** By request. When it was buried, or undefined while the request goes on. */
  const strict = new Map<string, number | undefined>()
  /** By lease. It may exist again after it was handed back. */
  const grants = new Map<string, { readonly isUnwanted: () => boolean; readonly sinceMs: number }>()
  let cancel = noop
  let sweeping = false
  let stopped = false

  return {
    suspect(requestId) {
      strict.set(requestId, undefined)
    },
    // Asked at the end of each request, when there are none nearly always: then the id need not be hashed.
    isSuspect: requestId => strict.size > 0 && strict.has(requestId),
    bury(requestId) {
      strict.set(requestId, scheduler.monotonicMs())
      scheduleSweep()
    },
    suspectGrant(leaseId, isUnwanted) {
      grants.set(leaseId, { isUnwanted, sinceMs: scheduler.monotonicMs() })
      scheduleSweep()
    },
    sweep,
    stop() {
      stopped = true
      cancel()
      strict.clear()
      grants.clear()
    },
  }

  function scheduleSweep(): void {
    if (sweeping || stopped) return
    sweeping = true
    cancel = scheduler.after(GHOST_SWEEP_MS, async () => {
      await sweep()
      sweeping = false
      if (grants.size > 0) scheduleSweep()
      for (const buriedMs of strict.values()) {
        if (buriedMs === undefined) continue
        scheduleSweep()
        break
      }
    })
  }

  async function sweep(): Promise<void> {
    await Promise.all([sweepStrict(), sweepGrants()])
  }

  async function sweepStrict(): Promise<void> {
    const dead: string[] = []
    for (const [requestId, buriedMs] of strict) {
      if (buriedMs !== undefined && dead.push(requestId) === GHOSTS_SWEPT_MAX) break
    }
    if (dead.length === 0) return
    // As of now: this process may be paused before it hears the answer, and what comes to exist meanwhile was not looked for.
    const forgottenMs = scheduler.monotonicMs() - UNCONFIRMED_WATCH_MS
    try {
      await store.release(dead)
      for (const requestId of dead) {
        const buriedMs = strict.get(requestId)
        strict.delete(requestId)
        // Looked at again, after the others; also one whose lease was found, since the admission may have been sent more than once.
        if (buriedMs !== undefined && buriedMs > forgottenMs) strict.set(requestId, buriedMs)
      }
    } catch (error) {
      log?.warn({ err: error, leases: dead.length }, 'leases of given-up admissions could not be released yet')
    }
  }

  async function sweepGrants(): Promise<void> {
    const dead: string[] = []
    const forgottenMs = scheduler.monotonicMs() - UNCONFIRMED_WATCH_MS
    for (const [leaseId, { isUnwanted }] of grants) if (isUnwanted()) dead.push(leaseId)
    try {
      // Whatever slots were used are not known any more: they stay counted.
      if (dead.length > 0)
        await store.handBack(dead.map(leaseId => ({ leaseId, keepNanos: null, slotsUsed: SLOTS_ALL })))
      for (const [leaseId, { sinceMs }] of grants) if (sinceMs <= forgottenMs) grants.delete(leaseId)
    } catch (error) {
      log?.warn({ err: error, leases: dead.length }, 'leases that were given up could not be handed back yet')
    }
  }
}

const noop = () => {}
