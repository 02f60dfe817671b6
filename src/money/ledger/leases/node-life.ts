import { failpoint } from '../../../base/runtime/failpoint.ts'
import type { Log } from '../../../base/runtime/log.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import { HEARTBEAT_MS, type Heartbeat, type LedgerStore, type NodeHeartbeats, SELF_FENCE_MS } from '../ledger-store.ts'
import { NodeWatch } from './node-watch.ts'

/** This process as the database and the other nodes know it. */
export interface NodeView {
  /**
   * New at each start and after each fencing, and never reused, so that a lease always names the one owner that may
   * use it.
   */
  readonly nodeId: string
  /**
   * Whether bulk leases may still be used. False from 12 s after the last successful heartbeat was *sent*, on
   * the clock that never steps: long before other nodes may declare this one dead.
   */
  mayAdmit(): boolean
  /** Whether there were other live nodes at the last heartbeat. */
  hasPeers(): boolean
}

export interface NodeLife extends NodeView {
  /** Whether this node has seen no heartbeat of a live node for `forMs`. */
  isSilent(nodeId: string, forMs: number): boolean
  /** The live nodes without a heartbeat for `forMs`. */
  silentNodes(forMs: number): NodeHeartbeats[]
  /** Adds a listener. */
  listen(listener: NodeListener): void
  /** Ends the heartbeats. Resolves when none is in flight. */
  stop(): Promise<void>
  /**
   * Declares the node dead at the end of a drain, so that its leases may be reclaimed at once. Call it after
   * `stop`. Resolves with whether PostgreSQL confirmed it.
   */
  retire(): Promise<boolean>
}

export interface NodeListener {
  /** The node was declared dead while it was paused, and its leases are gone. It continues under another id. */
  onFenced(): void
  onRecalled(leaseIds: readonly string[]): void
  /**
   * After each successful heartbeat. `isReconnected`: the one before it did not reach PostgreSQL, or PostgreSQL has
   * lost it since.
   */
  onBeat?(heartbeat: Heartbeat, isReconnected: boolean): void
}

export interface NodeLifeDeps {
  readonly store: Pick<LedgerStore, 'registerNode' | 'heartbeat' | 'retireNode'>
  readonly scheduler: Scheduler
  /** Makes node ids: UUIDs that are never used again. */
  readonly newId: () => string
  /**
   * Called with each id before it is registered, so that the next process on this data directory can end its
   * leases.
   */
  readonly onNewId?: (nodeId: string) => void
  readonly log?: Pick<Log, 'warn'>
}

/** Registers the node and keeps it alive until `stop`. Rejects when the database cannot be reached. */
export async function startNodeLife(deps: NodeLifeDeps): Promise<NodeLife> {
  const heart = new Heartbeats(deps)
  await heart.register()
  heart.schedule()
  return {
    get nodeId() {
      return heart.nodeId
    },
    mayAdmit: () => deps.scheduler.monotonicMs() < heart.trustedUntilMs,
    hasPeers: () => heart.watch.size > 0,
    isSilent: (nodeId, forMs) => heart.watch.isSilent(nodeId, forMs),
    silentNodes: forMs => heart.watch.silentNodes(forMs),
    listen: listener => {
      heart.listeners.push(listener)
    },
    stop: () => heart.stop(),
    async retire() {
      try {
        await deps.store.retireNode(heart.nodeId)
        return true
      } catch (error) {
        // Continue the shutdown. The next start on this data directory declares the node dead, or other nodes do.
        deps.log?.warn({ err: error, nodeId: heart.nodeId }, 'this node could not be retired')
        return false
      }
    },
  }
}

class Heartbeats {
  readonly #deps: NodeLifeDeps
  readonly listeners: NodeListener[] = []
  readonly watch: NodeWatch = new NodeWatch()
  nodeId = ''
  trustedUntilMs = 0
  /** The numbers of the last heartbeat, and of the last one that PostgreSQL confirmed under this id. */
  #sent = 0
  #confirmed = 0
  #isReconnected = false
  #isStopped = false
  #beating: Promise<void> = Promise.resolve()
  #cancel: () => void = () => {}

  constructor(deps: NodeLifeDeps) {
    this.#deps = deps
  }

  async register(): Promise<void> {
    const { store, scheduler, onNewId } = this.#deps
    const newId = this.#deps.newId()
    onNewId?.(newId)
    failpoint('node-noted')
    const sentAtMs = scheduler.monotonicMs()
    await store.registerNode(newId)
    failpoint('node-registered')
    this.nodeId = newId
    this.#confirmed = 0
    this.trustedUntilMs = sentAtMs + SELF_FENCE_MS
  }

  schedule(): void {
    if (this.#isStopped) return
    const { scheduler, log } = this.#deps
    this.#cancel = scheduler.after(HEARTBEAT_MS, () => {
      this.#beating = this.#beat()
        .catch(error => {
          this.#isReconnected = true
          log?.warn({ err: error }, 'the heartbeat did not reach the database; trying again')
        })
        .then(() => this.schedule())
    })
  }

  async stop(): Promise<void> {
    this.#isStopped = true
    this.#cancel()
    await this.#beating
  }

  async #beat(): Promise<void> {
    const { store, scheduler, log } = this.#deps
    const sentAtMs = scheduler.monotonicMs()
    failpoint('heartbeat-before-send')
    const number = ++this.#sent
    const heartbeat = await store.heartbeat(this.nodeId, number)
    failpoint('heartbeat-sent')
    if (heartbeat.isAlive) {
      const { before, recalled, others } = heartbeat
      const isReconnected = this.#isReconnected || before < this.#confirmed
      this.#isReconnected = false
      this.#confirmed = number
      this.trustedUntilMs = sentAtMs + SELF_FENCE_MS
      this.watch.look(others, sentAtMs, scheduler.monotonicMs())
      if (recalled.length > 0) for (const listener of this.listeners) listener.onRecalled(recalled)
      for (const listener of this.listeners) listener.onBeat?.(heartbeat, isReconnected)
      return
    }
    log?.warn({ nodeId: this.nodeId }, 'this node had been declared dead; its running requests are settled late')
    this.trustedUntilMs = Number.NEGATIVE_INFINITY
    for (const listener of this.listeners) listener.onFenced()
    await this.register()
  }
}
