import type { Log } from '../domain/log.ts'
import type { Scheduler } from '../domain/scheduler.ts'
import { failpoint } from '../failpoint.ts'
import type { LedgerStore } from '../ledger/ledger-store.ts'
import { type NodeLife, startNodeLife } from '../ledger/node-life.ts'

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
   * Call it after their journals were replayed, so that their charges find their leases. Never rejects: what cannot be done now, because a
   * balance is locked for example, is logged and tried again like the leases of any dead node.
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
  life.listen({
    onFenced() {},
    onRecalled() {},
    onBeat() {
      if (++beats % REAP_EVERY_BEATS !== 0 || reaping) return
      reaping = reap([]).finally(() => {
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
      await life.stop()
      await reaping
    },
    bury: reap,
  }

  async function reap(nodeIds: readonly string[] | 'all') {
    try {
      failpoint('reap-before-send')
      const leases = await store.reclaim({
        nodeShard,
        ...(nodeIds === 'all' ? { onlyNodeAlive: life.nodeId } : { deadNodes: nodeIds }),
      })
      if (leases > 0) log.info({ leases }, 'leases of dead nodes were given back')
    } catch (error) {
      log.warn({ err: error }, 'leases of dead nodes could not be given back; trying again')
    }
  }
}
