import { failpoint } from '../base/runtime/failpoint.ts'
import type { Log } from '../base/runtime/log.ts'
import type { Scheduler } from '../base/runtime/scheduler.ts'
import { type NodeLife, startNodeLife } from '../money/ledger/leases/node-life.ts'
import { isErrorOfOneCustomer } from '../money/ledger/leases/reclaim-dead-leases.ts'
import { DEAD_AFTER_MS, type Heartbeat, type LedgerStore, type ReclaimOptions } from '../money/ledger/ledger-store.ts'

export interface NodeDeps {
  readonly store: LedgerStore
  readonly scheduler: Scheduler
  readonly newId: () => string
  /** The shard of usage_hour and usage_day that this node writes. */
  readonly nodeShard: number
  readonly onNewId?: (nodeId: string) => void
  readonly log: Pick<Log, 'info' | 'warn'>
}

export interface RunningNode extends NodeLife {
  /**
   * Ends the leases of dead nodes immediately. `nodeIds` are nodes that a lock proves dead; `'all'` means
   * every node except this one. Call it after their journals were replayed, so that the replayed charges find
   * their leases. If the balance of a customer is locked, that is logged and its leases are ended later.
   * Rejects when PostgreSQL cannot be reached.
   */
  reclaimLeases(nodeIds: readonly string[] | 'all'): Promise<void>
}

/** How soon a reclaim that failed is tried again, and how often a node searches for leases without a node. */
const RETRY_EVERY_BEATS = 5
const SEARCH_EVERY_BEATS = 60

/** Registers this process as a node, sends its heartbeats, and ends the leases of dead nodes, until `stop`. */
export async function startNode({ store, scheduler, newId, nodeShard, onNewId, log }: NodeDeps): Promise<RunningNode> {
  const life = await startNodeLife({ store, scheduler, newId, log, ...(onNewId && { onNewId }) })
  const reclaimer = new Reclaimer({ store, nodeShard, life, log })
  life.listen({ onFenced() {}, onRecalled() {}, onBeat: heartbeat => reclaimer.onBeat(heartbeat) })
  return {
    get nodeId() {
      return life.nodeId
    },
    mayAdmit: life.mayAdmit,
    hasPeers: life.hasPeers,
    isSilent: life.isSilent,
    silentNodes: life.silentNodes,
    listen: life.listen,
    retire: life.retire,
    async stop() {
      reclaimer.cancel()
      await life.stop()
      await reclaimer.idle
    },
    reclaimLeases: nodeIds => reclaimer.reclaimNow(nodeIds),
  }
}

interface ReclaimerDeps extends Pick<NodeDeps, 'store' | 'nodeShard' | 'log'> {
  readonly life: Pick<NodeLife, 'nodeId' | 'silentNodes'>
}

/** Declares silent nodes dead, and ends the leases of dead nodes: on request and after heartbeats. */
class Reclaimer {
  readonly #deps: ReclaimerDeps
  /**
   * Aborts a reclaim: a dead node may have had thousands of customers, with one transaction each. Another
   * node, or the next start, reclaims the rest.
   */
  readonly #stopping = new AbortController()
  #beats = 0
  #running: Promise<void> | undefined

  constructor(deps: ReclaimerDeps) {
    this.#deps = deps
  }

  /** Resolves when the reclaim that a heartbeat started has ended; undefined when none is running. */
  get idle(): Promise<void> | undefined {
    return this.#running
  }

  onBeat({ hasDeadNodes }: Heartbeat): void {
    this.#beats++
    if (this.#running) return
    const silentNodes = this.#deps.life.silentNodes(DEAD_AFTER_MS)
    const isDue = hasDeadNodes ? this.#beats % RETRY_EVERY_BEATS === 0 : this.#beats % SEARCH_EVERY_BEATS === 0
    if (silentNodes.length === 0 && !isDue) return
    if (silentNodes.length > 0)
      this.#deps.log.warn(
        { nodes: silentNodes.map(({ nodeId }) => nodeId) },
        `nodes have sent no heartbeat for ${DEAD_AFTER_MS / 1000} s; declaring them dead`,
      )
    this.#running = this.#reclaim({ silentNodes })
      .catch(error => this.#logFailure(error))
      .finally(() => {
        this.#running = undefined
      })
  }

  async reclaimNow(nodeIds: readonly string[] | 'all'): Promise<void> {
    try {
      await this.#reclaim(nodeIds === 'all' ? { onlyNodeAlive: this.#deps.life.nodeId } : { deadNodes: nodeIds })
    } catch (error) {
      if (!isErrorOfOneCustomer(error)) throw error
      this.#logFailure(error)
    }
  }

  cancel(): void {
    this.#stopping.abort()
  }

  async #reclaim(dead: Pick<ReclaimOptions, 'silentNodes' | 'deadNodes' | 'onlyNodeAlive'>): Promise<void> {
    const { store, nodeShard, log } = this.#deps
    failpoint('reap-before-send')
    const leases = await store.reclaim({ nodeShard, signal: this.#stopping.signal, ...dead })
    if (leases > 0) log.info({ leases }, 'reclaimed leases of dead nodes')
  }

  #logFailure(error: unknown): void {
    this.#deps.log.warn({ err: error }, 'leases of dead nodes could not be reclaimed; trying again')
  }
}
