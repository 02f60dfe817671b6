import { type NodeLife, startNodeLife } from '../ledger/leases/node-life.ts'
import { isOfOneCustomer } from '../ledger/leases/reclaim-dead-leases.ts'
import type { LedgerStore } from '../ledger/ledger-store.ts'
import { failpoint } from '../runtime/failpoint.ts'
import type { Log } from '../runtime/log.ts'
import type { Scheduler } from '../runtime/scheduler.ts'

export interface NodeDeps {
  readonly store: LedgerStore
  readonly scheduler: Scheduler
  readonly newId: () => string
  /** The shard of usage_hour and usage_day of this node. */
  readonly nodeShard: number
  readonly onNewId?: (nodeId: string) => void
  readonly log: Pick<Log, 'info' | 'warn'>
}

export interface RunningNode extends NodeLife {
  /**
   * Ends the leases of nodes that are known to be dead, at once. `nodeIds` are those that a lock proves dead; `'all'` are all but this one.
   * Call it after their journals were replayed, so that their charges find their leases. Where the balance of a customer is locked, that is logged, and
   * tried again like the leases of any dead node. Rejects when PostgreSQL cannot be reached.
   */
  bury(nodeIds: readonly string[] | 'all'): Promise<void>
}

/** Reaping is for nodes that died elsewhere; it costs two cheap queries. */
const REAP_EVERY_BEATS = 15

/** Announces this process, keeps it alive in the database, and ends the leases of processes that died, from now until `stop`. */
export async function startNode({ store, scheduler, newId, nodeShard, onNewId, log }: NodeDeps): Promise<RunningNode> {
  const life = await startNodeLife({ store, scheduler, newId, log, ...(onNewId && { onNewId }) })
  let beats = 0
  let reaping: Promise<void> | undefined
  // A dead node may leave thousands of customers behind, a transaction each: another node goes on with them, or the next start.
  const stopping = new AbortController()
  life.listen({
    onFenced() {},
    onRecalled() {},
    onBeat() {
      if (++beats % REAP_EVERY_BEATS !== 0 || reaping) return
      reaping = reap([])
        .catch(logFailure)
        .finally(() => {
          reaping = undefined
        })
    },
  })
  return {
    get nodeId() {
      return life.nodeId
    },
    mayAdmit: life.mayAdmit,
    listen: life.listen,
    retire: life.retire,
    async stop() {
      stopping.abort()
      await life.stop()
      await reaping
    },
    bury: nodeIds =>
      reap(nodeIds).catch(error => {
        if (!isOfOneCustomer(error)) throw error
        logFailure(error)
      }),
  }

  function logFailure(error: unknown) {
    log.warn({ err: error }, 'leases of dead nodes could not be given back; trying again')
  }

  async function reap(nodeIds: readonly string[] | 'all') {
    failpoint('reap-before-send')
    const leases = await store.reclaim({
      nodeShard,
      signal: stopping.signal,
      ...(nodeIds === 'all' ? { onlyNodeAlive: life.nodeId } : { deadNodes: nodeIds }),
    })
    if (leases > 0) log.info({ leases }, 'leases of dead nodes were given back')
  }
}
