import { randomUUIDv7 } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import type { Sql } from '../../src/base/db/pool.ts'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { startNode } from '../../src/jobs/start-node.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { reclaimDeadLeases } from '../../src/money/ledger/leases/reclaim-dead-leases.ts'
import type { ReclaimOptions } from '../../src/money/ledger/ledger-store.ts'
import { storeOf } from '../harness/store-of.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { admissionOf, settle, settlementOf, unlimited, useLedgerWorld, useNode } from './ledger-world.ts'

const USD = 1_000_000_000n

const world = useLedgerWorld('test')
const [dead, alive] = [useNode(world, {}, 'test'), useNode(world, {}, 'test')]

test('the start after a kill -9 releases the money of the killed process at once and leaves a free row for each request', async () => {
  const [one, two] = [await world.addCustomer(1_000n), await world.addCustomer(1_000n)]
  const lost = [admissionOf(one, 300n), admissionOf(one, 200n), admissionOf(two, 100n)]
  const running = admissionOf(one, 50n)
  await Promise.all(lost.map(admission => dead.ledger.admit(admission)))
  await alive.ledger.admit(running)

  expect(await reclaimDeadLeases(world.pool, { nodeShard: 3, onlyNodeAlive: alive.nodeId })).toBe(3)

  expect(await readBalance(world.pool, one)).toMatchObject({
    postedNanos: 1_000n,
    leasedNanos: 50n,
    dayLeasedNanos: 50n,
  })
  expect(await readBalance(world.pool, two)).toMatchObject({ postedNanos: 1_000n, leasedNanos: 0n })
  const { rows } = await world.pool.query(
    `SELECT request_id, customer_id, key_id, model_id, provider, outcome, success, cost_nanos, hold_nanos FROM usage_event ORDER BY hold_nanos DESC`,
  )
  expect(rows).toEqual(
    lost.map(({ requestId, customerId, keyId, modelId, ask }) => ({
      request_id: requestId,
      customer_id: customerId,
      key_id: keyId,
      model_id: modelId,
      provider: 'none',
      outcome: 'node_died',
      success: false,
      cost_nanos: 0n,
      hold_nanos: ask!.wantNanos,
    })),
  )
  expect(await reclaimDeadLeases(world.pool, { nodeShard: 3, onlyNodeAlive: alive.nodeId })).toBe(0)
  expect(await world.violations()).toEqual([])
})

test('a request whose node was declared dead is not settled until its charge arrives', async () => {
  const customerId = await world.addCustomer(1_000n)
  const admission = admissionOf(customerId, 300n)
  const result = await dead.ledger.admit(admission)
  if (result.kind !== 'granted') throw new Error(result.kind)
  const store = storeOf(world.pool)
  await reclaimDeadLeases(world.pool, { nodeShard: 3, onlyNodeAlive: alive.nodeId })
  expect(await store.areSettled([admission])).toBe(false)
  await dead.ledger.settle(settlementOf(admission, 300n, 200n), result.hold)
  await expect.poll(() => store.areSettled([admission]), WAIT_OPTIONS).toBe(true)
})

// Reaping thousands of customers, a transaction each, used to delay the stop of the node.
test('a stopping node leaves the remaining customers of a dead node to the next reaper', async () => {
  const customers = await Promise.all(Array.from({ length: 3 }, () => world.addCustomer(1_000n)))
  await Promise.all(customers.map(customerId => dead.ledger.admit(admissionOf(customerId, 100n))))
  const stopping = new AbortController()
  const onlyFirst: Sql = {
    async query(statement, values) {
      const result = await world.pool.query(statement, values)
      if (String(statement).includes('reclaim_leases')) stopping.abort()
      return result as never
    },
  }
  const options = { nodeShard: 3, onlyNodeAlive: alive.nodeId }
  expect(await reclaimDeadLeases(onlyFirst, { ...options, signal: stopping.signal })).toBe(1)
  expect(await reclaimDeadLeases(world.pool, options)).toBe(2)

  // Reclaims until it is aborted.
  const reclaim = ({ signal }: ReclaimOptions) =>
    new Promise<number>(resolve => signal!.addEventListener('abort', () => resolve(0)))
  const node = await startNode({
    store: { ...storeOf(world.pool), reclaim },
    scheduler: systemScheduler,
    newId: randomUUIDv7,
    nodeShard: 4,
    log: { info() {}, warn() {} },
  })
  const burying = node.reclaimLeases('all')
  await node.stop()
  await burying
})

// One locked balance used to block the money of all later customers and the start of the gateway.
test('a locked balance blocks neither the money of other customers nor the start of a node', async () => {
  await world.pool.query(`ALTER FUNCTION reclaim_leases SET lock_timeout = '50ms'`)
  const customers = await Promise.all(Array.from({ length: 8 }, () => world.addCustomer(1_000n)))
  await Promise.all(customers.map(customerId => dead.ledger.admit(admissionOf(customerId, 100n))))
  const openLeases = async () => {
    const { rows } = await world.pool.query<{ customer_id: string }>('SELECT DISTINCT customer_id FROM lease')
    return rows.map(row => row.customer_id)
  }
  // The reaper runs the same query and begins with the first customer.
  const [locked] = await openLeases()
  const other = await world.pool.pg.connect()
  await other.query('BEGIN')
  await other.query('SELECT FROM balance WHERE customer_id = $1 FOR UPDATE', [locked])
  const log = { info: vi.fn(), warn: vi.fn() }
  const deps = { store: storeOf(world.pool), scheduler: systemScheduler, newId: randomUUIDv7, nodeShard: 3, log }
  const node = await startNode(deps)
  try {
    await node.reclaimLeases([dead.nodeId])
    expect(log.warn).toHaveBeenCalledWith(
      { err: expect.objectContaining({ message: expect.stringContaining('lock timeout') }) },
      expect.stringContaining('trying again'),
    )
    expect(await openLeases()).toEqual([locked])
  } finally {
    await other.query('COMMIT')
    other.release()
  }
  await node.reclaimLeases([])
  expect(await openLeases()).toEqual([])
  await node.stop()
  expect(await world.violations()).toEqual([])
})

test('a settlement after the reaper is charged to the free balance and replaces the presumed death', async () => {
  const customerId = await world.addCustomer(1_000n)
  const admission = admissionOf(customerId, 300n)
  await dead.ledger.admit(admission)
  const store = storeOf(world.pool)
  await store.retireNode(dead.nodeId)
  await reclaimDeadLeases(world.pool, { nodeShard: 3 })
  expect(await store.heartbeat(dead.nodeId, 1)).toMatchObject({ isAlive: false })
  await settle(dead.ledger, settlementOf(admission, 300n, 250n))
  await settle(dead.ledger, settlementOf(admission, 300n, 250n))
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 750n, leasedNanos: 0n })
  const { rows } = await world.pool.query('SELECT outcome, cost_nanos FROM usage_event')
  expect(rows).toEqual([{ outcome: 'served', cost_nanos: 250n }])
  expect(await world.violations()).toEqual([])
})

test.each([
  ['today', 0],
  ['a day that is over', 86_400_000],
])(
  'a charge after the reaper counts for the cap of its day, and is written off when the cap is used up: %s',
  async (_, laterMs) => {
    let nowMs = Date.UTC(2026, 10, 21, 10, 30)
    const node = async () => world.addNode({ windowClock: () => nowMs })
    const [dying, other] = [await node(), await node()]
    const customerId = await world.addCustomer(10_000n)
    const limits = { ...unlimited, dailySpendCapNanos: 1_000n }
    const ask = (nanos: bigint) => admissionOf(customerId, nanos, { limits })
    const [fits, tooMuch, free] = [ask(400n), ask(400n), ask(200n)]
    for (const admission of [fits, tooMuch, free]) await dying.ledger.admit(admission)
    await storeOf(world.pool).retireNode(dying.nodeId)
    await reclaimDeadLeases(world.pool, { nodeShard: 3 })
    const running = ask(500n)
    await other.ledger.admit(running)
    nowMs += laterMs
    if (laterMs > 0) await other.ledger.admit(ask(10n))

    await settle(dying.ledger, settlementOf(fits, 400n, 350n))
    await settle(dying.ledger, settlementOf(tooMuch, 400n, 151n))
    await settle(dying.ledger, settlementOf(free, 200n, 0n))
    // 500 are held and 350 spent.
    expect(await costsOf(customerId)).toEqual([0n, 0n, 350n])
    if (laterMs === 0) {
      expect(await other.ledger.admit(ask(151n))).toMatchObject({ kind: 'refused', code: 'in_flight_budget' })
      expect(await other.ledger.admit(ask(150n))).toMatchObject({ kind: 'granted' })
    }
    await settle(other.ledger, settlementOf(running, 500n, 500n))
    expect(await world.violations()).toEqual([])
  },
)

test('a late charge of a bulk lease counts for its day too, although the reaper did not know its request', async () => {
  const nowMs = Date.UTC(2026, 10, 21, 10, 30)
  const options = { windowClock: () => nowMs, bulkLeases: true }
  const [dying, other] = [await world.addNode(options), await world.addNode(options)]
  const customerId = await world.addCustomer(100n * USD)
  const limits = { ...unlimited, dailySpendCapNanos: 10n * USD }
  const ask = (nanos: bigint) => admissionOf(customerId, nanos, { limits })
  await dying.ledger.admit(ask(USD / 100n))
  const admission = ask(USD / 100n)
  const result = await dying.ledger.admit(admission)
  if (result.kind !== 'granted') throw new Error(result.kind)
  const { hold } = result
  expect(hold.leaseId).not.toBe(admission.requestId)
  await storeOf(world.pool).retireNode(dying.nodeId)
  await reclaimDeadLeases(world.pool, { nodeShard: 3 })
  await other.ledger.admit(ask(10n * USD - 5n))
  const settlement = { ...settlementOf(admission, hold.nanos, 6n), leaseId: hold.leaseId }
  await dying.ledger.settle(settlement, hold)
  // The first row is of the strict lease of the first request.
  expect(await costsOf(customerId)).toEqual([0n, 0n])
  expect(await world.violations()).toEqual([])
})

async function costsOf(customerId: string): Promise<bigint[]> {
  const { rows } = await world.pool.query<{ cost: bigint }>(
    'SELECT cost_nanos AS cost FROM usage_event WHERE customer_id = $1 ORDER BY cost_nanos',
    [customerId],
  )
  return rows.map(row => row.cost)
}

test('leases of an unknown node are reclaimed, and a dead node is forgotten when its leases have ended', async () => {
  const [one, two] = [await world.addCustomer(1_000n), await world.addCustomer(1_000n)]
  const unknown = await world.addNode()
  await unknown.ledger.admit(admissionOf(one, 300n))
  await dead.ledger.admit(admissionOf(two, 300n))
  await world.pool.query('DELETE FROM node WHERE node_id = $1', [unknown.nodeId])
  await storeOf(world.pool).retireNode(dead.nodeId)
  await storeOf(world.pool).registerNode(dead.nodeId)
  expect(await storeOf(world.pool).heartbeat(dead.nodeId, 1)).toMatchObject({ isAlive: false })

  expect(await reclaimDeadLeases(world.pool, { nodeShard: 3 })).toBe(2)

  const { rows } = await world.pool.query('SELECT node_id FROM node')
  expect(rows).toEqual([{ node_id: alive.nodeId }])
  expect(await world.violations()).toEqual([])
})

test('an admission in flight is committed before the death of its node, because the reaper waits for it', async () => {
  const customerId = await world.addCustomer(1_000n)
  const session = await world.pool.pg.connect()
  try {
    await session.query('BEGIN')
    await storeOf(session as Sql).admit(dead.nodeId, [admissionOf(customerId, 300n)])
    let isOver = false
    const reclaimed = reclaimDeadLeases(world.pool, { nodeShard: 3, onlyNodeAlive: alive.nodeId }).finally(() => {
      isOver = true
    })
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
    await expect.poll(async () => isOver || (await world.pool.query(waiting)).rows.length, WAIT_OPTIONS).toBe(1)
    await session.query('COMMIT')
    expect(await reclaimed).toBe(1)
  } finally {
    // Closes the connection, and rolls back what a failed assertion left open.
    session.release(true)
  }
  expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: 0n })
})

test('two concurrent reapers reclaim each lease once', async () => {
  const customers = await Promise.all(Array.from({ length: 8 }, () => world.addCustomer(1_000n)))
  await Promise.all(customers.flatMap(id => [1n, 2n, 3n].map(nanos => dead.ledger.admit(admissionOf(id, nanos)))))
  const counts = await Promise.all(
    [1, 2, 3].map(nodeShard => reclaimDeadLeases(world.pool, { nodeShard, onlyNodeAlive: alive.nodeId })),
  )
  expect(counts.reduce((a, b) => a + b)).toBe(24)
  expect(await world.violations()).toEqual([])
})
