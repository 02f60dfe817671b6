import { randomInt, randomUUID } from 'node:crypto'
import type { Sql } from '../db/pool.ts'
import { HEARTBEAT_MS, heartbeat, registerNode, retireNode } from '../ledger/node-life.ts'
import { reclaimDeadLeases } from '../ledger/reclaim-dead-leases.ts'

export interface RunningNode {
  /** New at each start, never reused: a lease names the one process that may settle it. */
  readonly nodeId: string
  /** The shard of the hourly sums this node writes, so that nodes do not wait for each other's rows. */
  readonly nodeShard: number
  /** Ends heartbeats and reaping and declares the node dead, so that others may take over at once. */
  retire(): Promise<void>
}

export interface NodeDeps {
  /** Its own connection: a pool that is busy with reports must not make a healthy node look dead. */
  readonly db: Sql
  /** The server lock proves that no other node lives: leases of earlier ones are given back at once instead of after their expiry. */
  readonly isOnlyNode: boolean
  readonly log: { info(facts: object, message: string): void; warn(facts: object, message: string): void }
}

const REAP_EVERY_BEATS = 5

/** Announces this process, keeps it alive in the database, and ends the leases of processes that died, from now until `retire`. */
export async function startNode({ db, isOnlyNode, log }: NodeDeps): Promise<RunningNode> {
  const nodeId = randomUUID()
  const nodeShard = randomInt(32_768)
  await registerNode(db, nodeId)
  await reap(isOnlyNode ? { nodeShard, onlyNodeAlive: nodeId } : { nodeShard })

  let beats = 0
  let working: Promise<void> = Promise.resolve()
  const timer = setInterval(() => {
    working = beat().catch(error => log.warn({ err: error }, 'the heartbeat did not reach the database; trying again'))
  }, HEARTBEAT_MS)
  timer.unref()

  return {
    nodeId,
    nodeShard,
    async retire() {
      clearInterval(timer)
      await working
      // Without a database it is declared dead by its expiry, and the rest of the shutdown has to go on.
      await retireNode(db, nodeId).catch(error => log.warn({ err: error, nodeId }, 'this node could not be retired'))
    },
  }

  async function beat() {
    if (!(await heartbeat(db, nodeId)))
      log.warn({ nodeId }, 'this node had been declared dead; requests it was running are free')
    if (++beats % REAP_EVERY_BEATS === 0) await reap({ nodeShard })
  }

  async function reap(options: Parameters<typeof reclaimDeadLeases>[1]) {
    const leases = await reclaimDeadLeases(db, options)
    if (leases > 0) log.info({ leases }, 'leases of dead nodes were given back')
  }
}
