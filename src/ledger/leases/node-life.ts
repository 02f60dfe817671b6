import { failpoint } from '../../runtime/failpoint.ts'
import type { Log } from '../../runtime/log.ts'
import type { Scheduler } from '../../runtime/scheduler.ts'
import { HEARTBEAT_MS, type LedgerStore, SELF_FENCE_MS } from '../ledger-store.ts'

/** This process as the other nodes see it. */
export interface NodeView {
  /** New at each start and after each fencing, never reused: so a lease always names the one owner that may use it. */
  readonly nodeId: string
  /**
   * Whether bulk leases may still be used. False from 12 s after the last heartbeat that arrived was *sent*, on the clock that never steps:
   * well before the 15 s after which PostgreSQL counts the node as gone.
   */
  mayAdmit(): boolean
}

export interface NodeLife extends NodeView {
  /** Told from now on. */
  listen(listener: NodeListener): void
  /** Ends the heartbeats; resolves when none is under way. */
  stop(): Promise<void>
  /**
   * Declares the node dead at the end of a drain: what it holds may be reclaimed at once. Call it after `stop`. Resolves with whether PostgreSQL has
   * said that it is.
   */
  retire(): Promise<boolean>
}

export interface NodeListener {
  /** The node was declared dead while it slept: its leases are gone. It goes on under another id. */
  onFenced(): void
  onRecalled(leaseIds: readonly string[]): void
  /** After each heartbeat that arrived. */
  onBeat?(): void
}

export interface NodeLifeDeps {
  readonly store: Pick<LedgerStore, 'registerNode' | 'heartbeat' | 'retireNode'>
  readonly scheduler: Scheduler
  /** Makes node ids: UUIDs that are never used again. */
  readonly newId: () => string
  /** Told each id before it is registered, so that a process after this one knows whose leases to end. */
  readonly onNewId?: (nodeId: string) => void
  readonly log?: Pick<Log, 'warn'>
}

/** Registers the node and keeps it alive until `stop`. Rejects when the database cannot be reached. */
export async function startNodeLife(deps: NodeLifeDeps): Promise<NodeLife> {
  const { store, scheduler, log } = deps
  const listeners: NodeListener[] = []
  let nodeId = ''
  let trustedUntilMs = 0
  let stopped = false
  let beating: Promise<void> = Promise.resolve()
  let cancel = () => {}
  await register()
  schedule()

  return {
    get nodeId() {
      return nodeId
    },
    mayAdmit: () => scheduler.monotonicMs() < trustedUntilMs,
    listen: listener => {
      listeners.push(listener)
    },
    async stop() {
      stopped = true
      cancel()
      await beating
    },
    async retire() {
      try {
        await store.retireNode(nodeId)
        return true
      } catch (error) {
        // The rest of the shutdown has to go on: it is declared dead by the next start, or by its expiry.
        log?.warn({ err: error, nodeId }, 'this node could not be retired')
        return false
      }
    },
  }

  async function register(): Promise<void> {
    const newId = deps.newId()
    deps.onNewId?.(newId)
    failpoint('node-noted')
    const sentAtMs = scheduler.monotonicMs()
    await store.registerNode(newId)
    failpoint('node-registered')
    nodeId = newId
    trustedUntilMs = sentAtMs + SELF_FENCE_MS
  }

  function schedule(): void {
    if (stopped) return
    cancel = scheduler.after(HEARTBEAT_MS, () => {
      beating = beat()
        .catch(error => log?.warn({ err: error }, 'the heartbeat did not reach the database; trying again'))
        .then(schedule)
    })
  }

  async function beat(): Promise<void> {
    const sentAtMs = scheduler.monotonicMs()
    failpoint('heartbeat-before-send')
    const { isAlive, recalled } = await store.heartbeat(nodeId)
    failpoint('heartbeat-sent')
    if (isAlive) {
      trustedUntilMs = sentAtMs + SELF_FENCE_MS
      if (recalled.length > 0) for (const listener of listeners) listener.onRecalled(recalled)
      for (const listener of listeners) listener.onBeat?.()
      return
    }
    log?.warn({ nodeId }, 'this node had been declared dead; what it was running is settled late')
    trustedUntilMs = Number.NEGATIVE_INFINITY
    for (const listener of listeners) listener.onFenced()
    await register()
  }
}
