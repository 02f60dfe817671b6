import { createModelDatabase, type ModelDatabase, type ModelDatabaseDeps } from './model-database.ts'
import type { World } from './world.ts'

/** PostgreSQL as its clients see it: up, slow, hung or down. */
export interface DatabaseServer {
  readonly model: ModelDatabase
  readonly clock: { epochMs: number }
  /** Number of server starts so far. Connections do not survive a restart. */
  readonly generation: number
  readonly state: 'up' | 'hung' | 'down'
  /** How long the server was stopped or hung so far, beyond the first OUTAGE_COUNTED_MAX_MS of each outage. */
  readonly outageExcessMs: number
  /** Upper bound of the time that a statement takes; 0 for none. */
  slowMs: number
  /** The SQLSTATE of most statements that write, while the server is out of disk, memory or connections. */
  readonly exhausted: string | undefined
  /** The server settles nothing, since the table of the charges is locked. */
  readonly isSettlingNothing: boolean
  /** Customers with a balance row that a foreign session has locked. */
  readonly lockedCustomers: ReadonlySet<string>
  lockBalance(customerId: string, forMs: number): void
  stop(forMs: number): void
  /** Stops, and starts again without the transactions of the last `lagMs`: a standby that lacks them takes over. */
  failOver(lagMs: number, forMs: number): void
  /** Accepts statements without running them, then runs them all. */
  hang(forMs: number): void
  /** Runs out of disk, memory or connections. */
  exhaust(code: string, forMs: number): void
  /** Locks the table of the charges, for this long from now on. */
  lockUsage(forMs: number): void
  /** Ends what would go on while the server is up: slowness, exhaustion, and the lock of the charges. */
  heal(): void
  /** Runs `work` at once, after the hang, or never. Calls `lost` when the server goes down before. */
  execute(work: () => void, lost: () => void): void
}

/**
 * How much of an outage a node may count as silence of other nodes: five seconds before a heartbeat that waits for the end of the outage, and five
 * seconds after it was sent.
 */
const OUTAGE_COUNTED_MAX_MS = 10_000

export function createDatabaseServer(
  world: World,
  epochMs: number,
  deps: Omit<ModelDatabaseDeps, 'epochMs' | 'commitMs'> & {
    /** Called with the work that undoes the transactions since `toMs`. */
    readonly onRollBack: (rollBack: () => void, toMs: number) => void
  },
): DatabaseServer {
  const clock = { epochMs }
  const model = createModelDatabase({
    ...deps,
    epochMs: () => clock.epochMs + world.nowMs,
    commitMs: () => world.nowMs,
  })
  let state: DatabaseServer['state'] = 'up'
  let generation = 1
  let exhausted: string | undefined
  let usageLockedUntilMs = 0
  const lockedCustomers = new Set<string>()
  let outageExcessMs = 0
  let outageSinceMs = 0
  let backlog: { work: () => void; lost: () => void }[] = []

  const server: DatabaseServer = {
    model,
    clock,
    get generation() {
      return generation
    },
    get state() {
      return state
    },
    get outageExcessMs() {
      return outageExcessMs
    },
    lockedCustomers,
    lockBalance(customerId, forMs) {
      world.note('database', 'locks the balance of', customerId, forMs)
      lockedCustomers.add(customerId)
      world.at(world.nowMs + forMs, () => lockedCustomers.delete(customerId))
    },
    slowMs: 0,
    get exhausted() {
      return exhausted
    },
    stop(forMs) {
      if (state === 'down') return
      world.note('database', 'stops for', forMs)
      if (state === 'up') outageSinceMs = world.nowMs
      state = 'down'
      generation++
      const dropped = backlog
      backlog = []
      for (const { lost } of dropped) lost()
      world.at(world.nowMs + forMs, () => {
        world.note('database', 'starts')
        state = 'up'
        endOutage()
      })
    },
    failOver(lagMs, forMs) {
      if (state === 'down') return
      world.note('database', 'fails over, and loses', lagMs)
      server.stop(forMs)
      const toMs = Math.max(world.nowMs - lagMs, 0)
      deps.onRollBack(() => model.rollBack(toMs), toMs)
    },
    hang(forMs) {
      if (state !== 'up') return
      world.note('database', 'hangs for', forMs)
      state = 'hung'
      outageSinceMs = world.nowMs
      const hung = generation
      world.at(world.nowMs + forMs, () => {
        if (generation !== hung) return
        world.note('database', 'resumes')
        state = 'up'
        endOutage()
        const waiting = backlog
        backlog = []
        for (const { work, lost } of waiting) begin(world.random.next() * 5, work, lost)
      })
    },
    exhaust(code, forMs) {
      world.note('database', 'is exhausted for', forMs, code)
      exhausted = code
      world.at(world.nowMs + forMs, () => {
        world.note('database', 'has room again')
        exhausted = undefined
      })
    },
    get isSettlingNothing() {
      return world.nowMs < usageLockedUntilMs
    },
    lockUsage(forMs) {
      world.note('database', 'locks the table of the charges for', forMs)
      usageLockedUntilMs = world.nowMs + forMs
    },
    heal() {
      server.slowMs = 0
      exhausted = undefined
      usageLockedUntilMs = 0
    },
    execute(work, lost) {
      if (state === 'down') lost()
      else begin(server.slowMs > 0 ? world.random.skewed(1, server.slowMs) : 0, work, lost)
    },
  }
  return server

  function endOutage(): void {
    outageExcessMs += Math.max(world.nowMs - outageSinceMs - OUTAGE_COUNTED_MAX_MS, 0)
  }

  function begin(delayMs: number, work: () => void, lost: () => void): void {
    const began = generation
    const finish = () => {
      if (generation !== began || state === 'down') lost()
      else if (state === 'hung') backlog.push({ work, lost })
      else work()
    }
    if (delayMs === 0) finish()
    else world.at(world.nowMs + delayMs, finish)
  }
}
