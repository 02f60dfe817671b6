import { randomUUIDv7 } from 'node:crypto'
import { expect, test } from 'vitest'
import type { Hold } from '../../src/base/domain/handoff.ts'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { openJournal } from '../../src/money/ledger/journal/journal.ts'
import type { Admission, AdmissionResult } from '../../src/money/ledger/leases/admission.ts'
import { reclaimDeadLeases } from '../../src/money/ledger/leases/reclaim-dead-leases.ts'
import { createPostgresStore } from '../../src/money/ledger/postgres-store.ts'
import { encodeSettlements } from '../../src/money/ledger/settlement/settlement.ts'
import { storeOf } from '../harness/store-of.ts'
import { createMemoryDisk } from '../journal/memory-disk.ts'
import { admissionOf, settlementOf, type TestNode, unlimited, useLedgerWorld } from './ledger-world.ts'

const USD = 1_000_000_000n
const HOLD = USD / 100n

const world = useLedgerWorld('test')

test('after a few requests a customer with a large balance is admitted in memory, without updates of the balance row', async () => {
  const node = await world.addNode({ bulkLeases: true })
  const customerId = await world.addCustomer(100n * USD)
  await warmUp(node, customerId)
  const before = await rowVersion(customerId)
  for (let i = 0; i < 40; i++) {
    const { admission, result } = await admit(node, customerId)
    expect(result).toMatchObject({ kind: 'granted', hold: { nanos: HOLD } })
    await settle(node, admission, result, 7n)
  }
  expect(await rowVersion(customerId)).toEqual(before)
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 100n * USD - 4n * 5n - 40n * 7n })
  expect(await world.violations()).toEqual([])
  expect(await node.ledger.drain(5_000)).toBe(0)
  // Unused slots are given back with the money.
  expect(await readBalance(world.pool, customerId)).toMatchObject({
    leasedNanos: 0n,
  })
  expect(await world.dayCounted(customerId)).toBe(45)
  expect(await world.violations()).toEqual([])
})

test('a lease that shrinks and closes in one batch, as after a slow answer of the database, is folded once', async () => {
  const { nodeId } = await world.addNode()
  const customerId = await world.addCustomer(10n * USD)
  const store = storeOf(world.pool)
  const leaseId = randomUUIDv7()
  const request = { leaseId, customerId, limits: unlimited, wantNanos: USD, floorNanos: USD, slots: 20 }
  expect(await store.admit(nodeId, [request])).toMatchObject([{ kind: 'granted', heldNanos: USD, slots: 20 }])
  await store.settle(1, encodeSettlements([settlementOf(admissionOf(customerId, HOLD), HOLD, 7n, { leaseId })]))
  await store.handBack([
    { leaseId, keepNanos: HOLD, slotsUsed: 1 },
    { leaseId, keepNanos: null, slotsUsed: 3 },
  ])
  expect(await readBalance(world.pool, customerId)).toMatchObject({
    postedNanos: 10n * USD - 7n,
    leasedNanos: 0n,
  })
  // The larger number of slots is the later one.
  expect(await world.dayCounted(customerId)).toBe(3)
  expect(await bulkLeases()).toEqual([])
  expect(await world.violations()).toEqual([])
})

test.each([
  ['minute', 3_600_000, { minuteUsed: 1, minuteCounted: 21, dayUsed: 2, dayCounted: 22 }],
  ['day', 3 * 86_400_000, { minuteUsed: 1, minuteCounted: 21, dayUsed: 1, dayCounted: 21 }],
])(
  'a %s that begins again after a clock was set back and forward counts the slots of its leases',
  async (_, stepMs, windows) => {
    let nowMs = Date.UTC(2026, 10, 21, 10, 30)
    const { nodeId } = await world.addNode()
    const customerId = await world.addCustomer(10n * USD)
    const store = createPostgresStore({ money: world.pool, heartbeat: world.pool, windowClock: () => nowMs })
    const leaseId = randomUUIDv7()
    const request = { leaseId, customerId, limits: unlimited, wantNanos: USD, floorNanos: USD, slots: 20 }
    const count = () => store.admit(nodeId, [admissionOf(customerId, null)])
    expect(await store.admit(nodeId, [request])).toMatchObject([{ kind: 'granted', slots: 20 }])
    nowMs -= stepMs
    expect(await count()).toMatchObject([{ windows: { minuteUsed: 1 } }])
    nowMs += stepMs
    expect(await count()).toMatchObject([{ windows }])
    expect(await world.violations()).toEqual([])
    // If they were not counted, subtracting them would go below zero, PostgreSQL would reject it, and the
    // lease would keep its money.
    await store.handBack([{ leaseId, keepNanos: null, slotsUsed: 3 }])
    expect(await count()).toMatchObject([{ windows: { minuteUsed: 5 } }])
    expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: 0n })
    expect(await world.violations()).toEqual([])
  },
)

test('new customers and last dollars are admitted by strict leases', async () => {
  const node = await world.addNode({ bulkLeases: true })
  const [poor, expensive] = [await world.addCustomer(USD - 1n), await world.addCustomer(19n * USD)]
  for (let i = 0; i < 12; i++) {
    const { result } = await admit(node, poor)
    expect(result).toMatchObject({ kind: 'granted' })
    await node.ledger.admit(admissionOf(expensive, USD))
  }
  expect(await bulkLeases()).toEqual([])
})

test('a request that needs the bulk lease of another node makes that node hand back the unused part', async () => {
  const [one, two] = [await world.addNode({ bulkLeases: true }), await world.addNode({ bulkLeases: true })]
  const customerId = await world.addCustomer(2n * USD)
  await warmUp(one, customerId)
  const running = await admit(one, customerId)
  const [lease] = await bulkLeases()
  expect(lease).toMatchObject({ node_id: one.nodeId, recalled: false })
  const { freeNanos } = (await readBalance(world.pool, customerId))!

  const asked = two.ledger.admit(admissionOf(customerId, freeNanos + 1n))
  // The heartbeat of the first node would report this within a second.
  let recalled: readonly string[] = []
  while (recalled.length === 0) recalled = (await storeOf(world.pool).heartbeat(one.nodeId, 1)).recalled
  expect(recalled).toEqual([lease!.lease_id])
  one.ledger.recall(recalled)

  expect(await asked).toMatchObject({ kind: 'granted', hold: { nanos: freeNanos + 1n } })
  // The running request keeps its hold and is charged to it.
  expect(await bulkLeases()).toMatchObject([{ granted_nanos: HOLD, recalled: false }])
  await settle(one, running.admission, running.result, HOLD)
  expect(await world.violations()).toEqual([])
})

test('a request that needs a bulk lease of its own node gets the money at once', async () => {
  const node = await world.addNode({ bulkLeases: true })
  const customerId = await world.addCustomer(2n * USD)
  await warmUp(node, customerId)
  expect(await bulkLeases()).toHaveLength(1)
  expect(await node.ledger.admit(admissionOf(customerId, 19n * (USD / 10n)))).toMatchObject({ kind: 'granted' })
  expect(await world.violations()).toEqual([])
})

test('money that ended requests leave in a lease is available while other requests of it run, also to another node', async () => {
  const [one, two] = [await world.addNode({ bulkLeases: true }), await world.addLivingNode()]
  const customerId = await world.addCustomer(4n * USD)
  await warmUp(one, customerId, USD / 10n)
  const running = await Promise.all(Array.from({ length: 9 }, () => admit(one, customerId, USD / 10n)))
  const [lease] = await bulkLeases()
  expect(running.map(({ result }) => holdOf(result).leaseId)).toEqual(running.map(() => lease!.lease_id))
  /** Admits a request for `nanos` while some of the nine still run, and settles it as free. */
  const passes = async (node: TestNode, nanos: bigint) => {
    const admission = admissionOf(customerId, nanos)
    const result = await node.ledger.admit(admission)
    expect(result).toMatchObject({ kind: 'granted' })
    await settle(node, admission, result, 0n)
    await settledAll(node)
  }
  const end = async (count: number) => {
    for (const { admission, result } of running.splice(0, count)) await settle(one, admission, result, 7n)
    await settledAll(one)
  }
  // Makes the lease give back what nothing needs.
  await passes(one, 3n * USD)
  await end(4)
  await passes(one, 34n * (USD / 10n))
  await end(4)
  const passing = passes(two, 38n * (USD / 10n))
  let recalled: readonly string[] = []
  while (recalled.length === 0) recalled = (await storeOf(world.pool).heartbeat(one.nodeId, 1)).recalled
  one.ledger.recall(recalled)
  await passing
  expect(await bulkLeases()).toMatchObject([{ lease_id: lease!.lease_id, granted_nanos: USD / 10n }])
  await end(1)
  expect(await one.ledger.drain(5_000)).toBe(0)
  expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: 0n })
  expect(await world.violations()).toEqual([])
})

test('three nodes together admit exactly as many requests of a minute as the limit allows', async () => {
  const nowMs = Date.UTC(2026, 10, 21, 10, 30)
  const nodes = await Promise.all([0, 1, 2].map(() => world.addNode({ bulkLeases: true, windowClock: () => nowMs })))
  const customerId = await world.addCustomer(1_000n * USD)
  const limits = { ...unlimited, requestsPerMinute: 150 }
  let granted = 0
  for (let round = 0; round < 20; round++) {
    const results = await Promise.all(
      nodes.flatMap(({ ledger }) =>
        Array.from({ length: 4 }, () => ledger.admit(admissionOf(customerId, HOLD, { limits }))),
      ),
    )
    granted += results.filter(({ kind }) => kind === 'granted').length
  }
  // Slots of one node may be unavailable for a moment, but they come back. In the end the minute is used up.
  await Promise.all(nodes.map(({ ledger }) => ledger.drain(5_000)))
  for (let i = 0; granted < 150 && i < 150; i++) {
    const { kind } = await nodes[0]!.ledger.admit(admissionOf(customerId, HOLD, { limits }))
    if (kind === 'granted') granted++
  }
  expect(granted).toBe(150)
  expect((await nodes[1]!.ledger.admit(admissionOf(customerId, HOLD, { limits }))).kind).toBe('refused')
})

test('lower limits end a lease that was granted under higher ones', async () => {
  const node = await world.addNode({ bulkLeases: true })
  const customerId = await world.addCustomer(100n * USD)
  await warmUp(node, customerId)
  const limits = { ...unlimited, requestsPerMinute: 1 }
  expect(await node.ledger.admit(admissionOf(customerId, HOLD, { limits }))).toMatchObject({
    code: 'rate_limit_exceeded',
  })
})

test('a node that may be declared dead admits nothing in memory', async () => {
  let mayAdmit = true
  const nodeId = randomUUIDv7()
  await storeOf(world.pool).registerNode(nodeId)
  const node = await world.addNode({
    bulkLeases: true,
    node: { nodeId, mayAdmit: () => mayAdmit, hasPeers: () => false },
  })
  const customerId = await world.addCustomer(100n * USD)
  await warmUp(node, customerId)
  const inMemory = await admit(node, customerId)
  mayAdmit = false
  const strict = await admit(node, customerId)
  expect(holdOf(inMemory.result).leaseId).not.toBe(inMemory.admission.requestId)
  expect(holdOf(strict.result).leaseId).toBe(strict.admission.requestId)
})

test.each([
  [31_000, false],
  [29_000, true],
])('charges that are late by %i ms: requests are admitted in memory: %s', async (lateMs, inMemory) => {
  let asleepMs = 0
  const { journal } = openJournal({ disk: createMemoryDisk(), scheduler: systemScheduler, fsync: false })
  const node = await world.addNode({
    bulkLeases: true,
    journal,
    scheduler: { ...systemScheduler, monotonicMs: () => systemScheduler.monotonicMs() + asleepMs },
    windowClock: () => Date.UTC(2026, 10, 21, 10, 30),
  })
  const [busy, late] = [await world.addCustomer(100n * USD), await world.addCustomer(USD)]
  await warmUp(node, busy)
  const charged = await admit(node, late)
  await using _ = await holdBalance(late)
  await settle(node, charged.admission, charged.result, 5n)
  asleepMs = lateMs
  const { admission, result } = await admit(node, busy)
  expect(holdOf(result).leaseId !== admission.requestId).toBe(inMemory)
})

test('with 100,000 uncommitted charges, no request is admitted', async () => {
  const node = await world.addNode({ commitWaitMs: 600_000 })
  const [late, other] = [await world.addCustomer(USD), await world.addCustomer(USD)]
  await using _ = await holdBalance(late)
  using _stopped = { [Symbol.dispose]: () => node.ledger.stop() }
  const settlement = settlementOf(admissionOf(late, 1n), 1n, 1n)
  const settleMore = (count: number) => {
    for (let i = 0; i < count; i++) {
      const requestId = randomUUIDv7()
      void node.ledger.settle(
        { ...settlement, requestId, leaseId: requestId },
        { leaseId: requestId, nanos: 1n, isOpen: true },
      )
    }
  }
  settleMore(99_999)
  expect(await admit(node, other)).toMatchObject({ result: { kind: 'granted' } })
  settleMore(1)
  await expect(admit(node, other)).rejects.toMatchObject({ code: 'overloaded' })
})

test('remaining settlements of a fenced node are charged to the free balance, once', async () => {
  const node = await world.addNode({ bulkLeases: true })
  const customerId = await world.addCustomer(100n * USD)
  await warmUp(node, customerId)
  const running = await admit(node, customerId)
  await storeOf(world.pool).retireNode(node.nodeId)
  expect(await reclaimDeadLeases(world.pool, { nodeShard: 9 })).toBe(1)
  expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: 0n, postedNanos: 100n * USD - 20n })
  node.ledger.fenced()
  await settle(node, running.admission, running.result, 9n)
  await settle(node, running.admission, running.result, 9n)
  expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: 0n, postedNanos: 100n * USD - 29n })
  expect(await world.violations()).toEqual([])
})

test('charges in the journal of a killed process are settled once by the next one, before its leases end', async () => {
  const disk = createMemoryDisk()
  const options = { disk, scheduler: systemScheduler, fsync: false }
  const killed = await world.addNode({ bulkLeases: true, journal: openJournal(options).journal })
  const customerId = await world.addCustomer(100n * USD)
  await warmUp(killed, customerId)
  const [inMemory, unsettled] = [await admit(killed, customerId), await admit(killed, customerId)]
  await settle(killed, inMemory.admission, inMemory.result, 11n)
  await settle(killed, unsettled.admission, unsettled.result, 13n)
  killed.ledger.stop()
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 100n * USD - 20n })

  const { journal, recovered } = openJournal(options)
  const next = await world.addNode({ bulkLeases: true, journal })
  const records = recovered.map(({ payload, entry }) => ({ payload, forget: () => journal.forget(entry) }))
  expect(await next.ledger.replay(records)).toBeGreaterThanOrEqual(2)
  await reclaimDeadLeases(world.pool, { nodeShard: 9, deadNodes: [killed.nodeId] })
  expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: 0n, postedNanos: 100n * USD - 44n })
  expect(journal.entries).toBe(0)
  expect(await world.violations()).toEqual([])
})

test('when the leases of a killed process are gone, the next one logs the late charge and not the ones that were committed', async () => {
  const disk = createMemoryDisk()
  const options = { disk, scheduler: systemScheduler, fsync: false }
  const killed = await world.addNode({ bulkLeases: true, journal: openJournal(options).journal })
  const customerId = await world.addCustomer(100n * USD)
  await warmUp(killed, customerId)
  const [committed, unsettled] = [await admit(killed, customerId), await admit(killed, customerId)]
  await settle(killed, committed.admission, committed.result, 11n)
  await settledAll(killed)
  await settle(killed, unsettled.admission, unsettled.result, 13n)
  killed.ledger.stop()
  await reclaimDeadLeases(world.pool, { nodeShard: 9, deadNodes: [killed.nodeId] })

  const { journal, recovered } = openJournal(options)
  const logged: object[] = []
  const log = { warn: (facts: object) => logged.push(facts), error: (facts: object) => logged.push(facts) }
  const next = await world.addNode({ bulkLeases: true, journal, log })
  const records = recovered.map(({ payload, entry }) => ({ payload, forget: () => journal.forget(entry) }))
  expect(records.some(({ payload }) => payload.includes(committed.admission.requestId))).toBe(true)
  await next.ledger.replay(records)
  expect(logged).toEqual([{ request: unsettled.admission.requestId, effect: 'late' }])
  expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: 0n, postedNanos: 100n * USD - 44n })
})

/** Sends enough requests, charged 5 nano-USD each, that the next one has a bulk lease. */
async function warmUp(node: TestNode, customerId: string, holdNanos = HOLD): Promise<void> {
  for (let i = 0; i < 4; i++) {
    const { admission, result } = await admit(node, customerId, holdNanos)
    await settle(node, admission, result, 5n)
  }
  // Asks for the lease and waits for it.
  const { admission, result } = await admit(node, customerId, holdNanos)
  expect(holdOf(result).leaseId).not.toBe(admission.requestId)
  await settle(node, admission, result, 0n)
  await settledAll(node)
}

/** Locks the balance until it is disposed, so that PostgreSQL accepts no charge of this customer. */
async function holdBalance(customerId: string): Promise<AsyncDisposable> {
  const holder = await world.pool.pg.connect()
  await holder.query('BEGIN')
  // On a busy machine, a test can keep the event loop busy for longer than the timeout of the pool.
  await holder.query('SET LOCAL idle_in_transaction_session_timeout = 0')
  await holder.query('SELECT FROM balance WHERE customer_id = $1 FOR UPDATE', [customerId])
  return {
    async [Symbol.asyncDispose]() {
      await holder.query('ROLLBACK')
      holder.release()
    },
  }
}

async function admit(node: TestNode, customerId: string, holdNanos = HOLD) {
  const admission = admissionOf(customerId, holdNanos)
  return { admission, result: await node.ledger.admit(admission) }
}

function settle(node: TestNode, admission: Admission, result: AdmissionResult, costNanos: bigint): Promise<void> {
  const hold = holdOf(result)
  return node.ledger.settle(settlementOf(admission, hold.nanos, costNanos, { leaseId: hold.leaseId }), hold)
}

function holdOf(result: AdmissionResult): Hold {
  if (result.kind !== 'granted') throw new Error(`not granted: ${JSON.stringify(result.kind)}`)
  return result.hold
}

async function settledAll(node: TestNode): Promise<void> {
  while (node.ledger.pending.settlements > 0) await new Promise(resolve => setImmediate(resolve))
}

/** A value that changes with every update of the customer's balance row. */
async function rowVersion(customerId: string) {
  const { rows } = await world.pool.query('SELECT xmin::text, ctid::text FROM balance WHERE customer_id = $1', [
    customerId,
  ])
  return rows
}

async function bulkLeases() {
  const { rows } = await world.pool.query<{
    lease_id: string
    node_id: string
    granted_nanos: bigint
    recalled: boolean
  }>('SELECT lease_id, node_id, granted_nanos, recalled FROM lease WHERE slots IS NOT NULL')
  return rows
}
