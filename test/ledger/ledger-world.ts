import { randomUUIDv7 } from 'node:crypto'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { costNanos, splitCost, type TokenPrice } from '../../src/base/domain/money.ts'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { openAccount } from '../../src/money/ledger/accounts/open-account.ts'
import { readWindows } from '../../src/money/ledger/accounts/read-windows.ts'
import { audit } from '../../src/money/ledger/audit/audit.ts'
import type { AuditFinding } from '../../src/money/ledger/audit/audit-checks.ts'
import type { Admission } from '../../src/money/ledger/leases/admission.ts'
import { type NodeLife, startNodeLife } from '../../src/money/ledger/leases/node-life.ts'
import { createLedger, type Ledger, type LedgerDeps } from '../../src/money/ledger/ledger.ts'
import { createPostgresStore } from '../../src/money/ledger/postgres-store.ts'
import type { Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import { createTestDatabase, PATIENT, type TestDatabase } from '../harness/database.ts'
import { useResource } from '../harness/use-resource.ts'

/** A database with everything a ledger test needs. */
export interface LedgerWorld extends TestDatabase {
  /** A ledger with its own pool and registered node, like another process. */
  addNode(more?: NodeOptions): Promise<TestNode>
  /** Like addNode, with heartbeats: other nodes do not declare it dead, and it learns of recalls. */
  addLivingNode(more?: Partial<LedgerDeps>): Promise<TestNode>
  /** A customer with an account of exactly this credit. Undefined makes a customer without an account. */
  addCustomer(creditNanos?: bigint): Promise<string>
  /** What counts against the customer's limit of the day. */
  dayCounted(customerId: string): Promise<number>
  /** How many sessions wait for a lock. */
  blockedSessions(): Promise<number>
  /** The audit findings with violations. */
  violations(): Promise<AuditFinding[]>
  /** Stops the nodes at once, then drops the database. */
  drop(): Promise<void>
}

export type NodeOptions = Partial<LedgerDeps> & { windowClock?: () => number }

export interface TestNode {
  readonly nodeId: string
  readonly pool: Pool
  readonly ledger: Ledger
}

/** A ledger world for the tests of this file or describe block, or a new one for each test. */
export function useLedgerWorld(scope?: 'file' | 'test'): LedgerWorld {
  return useResource(
    () => createLedgerWorld(),
    world => world.drop(),
    scope,
  )
}

/** A node of the ledger world; see `LedgerWorld.addNode`. */
export function useNode(world: LedgerWorld, more?: NodeOptions, scope?: 'file' | 'test'): TestNode {
  return useResource(
    () => world.addNode(more),
    () => {},
    scope,
  )
}

export function useNodes(world: LedgerWorld, count: number, more?: NodeOptions): readonly TestNode[] {
  return Array.from({ length: count }, () => useNode(world, more))
}

export async function createLedgerWorld(given?: TestDatabase): Promise<LedgerWorld> {
  const database = given ?? (await createTestDatabase())
  const { pool, gatewayConnection } = database
  const pools: Pool[] = []
  const ledgers: Ledger[] = []
  const lives: NodeLife[] = []
  const addPool = (max: number) => {
    const own = createPool(gatewayConnection, { ...PATIENT, max, applicationName: `ledger ${pools.length}` })
    pools.push(own)
    return own
  }
  const addLedger = (deps: Pick<LedgerDeps, 'store' | 'node'> & Partial<LedgerDeps>) => {
    const ledger = createLedger({
      nodeShard: pools.length,
      scheduler: systemScheduler,
      newId: randomUUIDv7,
      journal: null,
      bulkLeases: false,
      ...deps,
    })
    ledgers.push(ledger)
    return ledger
  }
  return {
    ...database,
    async addNode({ windowClock, ...more } = {}) {
      const nodeId = randomUUIDv7()
      const own = addPool(4)
      const store = createPostgresStore({ money: own, heartbeat: own, ...(windowClock && { windowClock }) })
      await store.registerNode(nodeId)
      const ledger = addLedger({ store, node: { nodeId, mayAdmit: () => true, hasPeers: () => false }, ...more })
      return { nodeId, pool: own, ledger }
    },
    async addLivingNode(more = {}) {
      const own = addPool(4)
      const store = createPostgresStore({ money: own, heartbeat: addPool(1) })
      const life = await startNodeLife({ store, scheduler: systemScheduler, newId: randomUUIDv7 })
      lives.push(life)
      const ledger = addLedger({ store, node: life, ...more })
      life.listen({
        onFenced: ledger.fenced,
        onRecalled: ledger.recall,
        onBeat: (_heartbeat, isReconnected) => ledger.onBeat(isReconnected),
      })
      return { nodeId: life.nodeId, pool: own, ledger }
    },
    async addCustomer(creditNanos) {
      const customerId = randomUUIDv7()
      await pool.query('INSERT INTO customer (customer_id, email, account_tier) VALUES ($1, $2, $3)', [
        customerId,
        `${customerId}@example.org`,
        'free',
      ])
      if (creditNanos !== undefined) await openAccount(pool, customerId, creditNanos)
      return customerId
    },
    async dayCounted(customerId) {
      return (await readWindows(pool, NO_NODE, [customerId])).get(customerId)!.dayCounted
    },
    async blockedSessions() {
      const { rows } = await pool.query<{ count: number }>(
        `SELECT count(*)::integer AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
      )
      return rows[0]!.count
    },
    async violations() {
      return (await audit(pool)).filter(finding => finding.violations > 0)
    },
    async drop() {
      for (const ledger of ledgers) ledger.stop()
      await Promise.all(lives.map(life => life.stop()))
      await Promise.all(pools.map(own => own.end()))
      await database.drop()
    },
  }
}

export const unlimited = {
  requestsPerMinute: 1_000_000,
  requestsPerDay: 1_000_000,
  dailySpendCapNanos: 1_000_000_000_000n,
}

/** An admission that holds exactly `holdNanos`. Null only counts the request. */
export function admissionOf(customerId: string, holdNanos: bigint | null, more: Partial<Admission> = {}): Admission {
  return {
    requestId: randomUUIDv7(),
    customerId,
    keyId: KEY_ID,
    modelId: 'gentle/model "7b"',
    limits: unlimited,
    keyLimit: null,
    memberLimit: null,
    ask: holdNanos === null ? null : { wantNanos: holdNanos, floorNanos: holdNanos },
    ...more,
  }
}

/** One input token costs one nano-USD, so that a cost can be any amount. */
export const nanoPerToken: TokenPrice = { inputPicoPerToken: 1_000n, outputPicoPerToken: 2_000n }

/** The settlement of an admission with tokens that cost `chargeNanos`. The hoster's share is 80 %. */
export function settlementOf(
  admission: Admission,
  holdNanos: bigint,
  chargeNanos: bigint,
  more: Partial<Settlement> = {},
): Settlement {
  const inputTokens = Number(chargeNanos)
  return {
    requestId: admission.requestId,
    leaseId: admission.requestId,
    customerId: admission.customerId,
    keyId: admission.keyId,
    label: null,
    startedAtEpochMs: Date.UTC(2026, 10, 21, 10, 30),
    modelId: admission.modelId,
    provider: 'hoster',
    endpointId: 'endpoint, {with} "quotes" \\ and a \0',
    hosterId: HOSTER_ID,
    inputTokens,
    outputTokens: 0,
    reportedInputTokens: inputTokens,
    reportedOutputTokens: null,
    countedInputTokens: null,
    countedOutputTokens: null,
    usageSource: 'upstream',
    price: nanoPerToken,
    parts: null,
    reasoningTokens: null,
    priceVersion: null,
    priceGroup: null,
    upstreamCostNanos: null,
    holdNanos,
    costNanos: costNanos(nanoPerToken, inputTokens, 0),
    ...splitCost(chargeNanos, HOSTER_SHARE_BPS),
    writeoffNanos: 0n,
    latencyMs: 120,
    firstTokenMs: 20,
    success: true,
    outcome: 'served',
    finishReason: 'stop',
    attempts: [{ offerId: 'a/"b"', endpointId: 'a', provider: 'hoster', outcome: 'answered', elapsedMs: 20 }],
    routing: null,
    ...more,
  }
}

/** Settles with a hold that matches the settlement. */
export function settle(ledger: Ledger, settlement: Settlement): Promise<void> {
  return ledger.settle(settlement, { leaseId: settlement.leaseId, nanos: settlement.holdNanos, isOpen: true })
}

export const HOSTER_SHARE_BPS = 8_000
export const KEY_ID = '00000000-0000-7000-8000-00000000000a'
export const HOSTER_ID = '00000000-0000-7000-8000-00000000000b'
const NO_NODE = '00000000-0000-0000-0000-000000000000'
