import { randomUUIDv7 } from 'node:crypto'
import { setImmediate } from 'node:timers/promises'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { type Scheduler, systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { createLedger, type Ledger } from '../../src/money/ledger/ledger.ts'
import { startFaultProxy } from '../harness/fault-proxy.ts'
import { storeOf } from '../harness/store-of.ts'
import { useResource } from '../harness/use-resource.ts'
import { admissionOf, settle, settlementOf, unlimited, useLedgerWorld } from './ledger-world.ts'

const world = useLedgerWorld()
const proxy = useResource(
  () => startFaultProxy(world.connection),
  proxy => proxy.close(),
)
const nodeId = randomUUIDv7()
let pool: Pool

beforeAll(() => storeOf(world.pool).registerNode(nodeId))

let ledger: Ledger
let warnings: string[]
let monotonicMs: number

beforeEach(async () => {
  proxy.pass()
  pool = createPool(proxy.connection, { max: 4, applicationName: 'cut off' })
  warnings = []
  monotonicMs = 0
  const scheduler: Scheduler = { ...systemScheduler, monotonicMs: () => monotonicMs }
  const log = { warn: (_: object, message: string) => warnings.push(message), error: () => {} }
  const node = { nodeId, mayAdmit: () => true, hasPeers: () => false }
  ledger = createLedger({
    store: storeOf(pool),
    node,
    nodeShard: 1,
    scheduler,
    newId: randomUUIDv7,
    journal: null,
    bulkLeases: false,
    log,
  })
  // Completes the handshake, so that the next answer is one to a statement.
  await ledger.admit(admissionOf(await world.addCustomer(1n), 1n))
})

afterEach(async () => {
  proxy.pass()
  // A ledger looks for unconfirmed leases each second. The next test must not lose the answer to that.
  ledger.stop()
  await pool.end()
})

test('an admission with a lost answer is sent again and takes effect once', async () => {
  const customerId = await world.addCustomer(1_000n)
  const lost = proxy.cutAfter(0)
  const result = await ledger.admit(admissionOf(customerId, 300n))
  await lost
  expect(result).toMatchObject({ kind: 'granted', hold: { nanos: 300n }, windows: { minuteUsed: 1, dayUsed: 1 } })
  expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: 300n })
  expect(await world.dayCounted(customerId)).toBe(1)
  expect(await world.violations()).toEqual([])
})

test('a settlement with a lost answer is sent again and charges once', async () => {
  const customerId = await world.addCustomer(1_000n)
  const admission = admissionOf(customerId, 300n)
  await ledger.admit(admission)
  const lost = proxy.cutAfter(0)
  await settle(ledger, settlementOf(admission, 300n, 250n))
  await lost
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 750n, leasedNanos: 0n })
  expect(warnings).toEqual([expect.stringContaining('settlements could not be committed')])
  expect(await world.violations()).toEqual([])
})

test('a charge that was committed before it was voided remains, once', async () => {
  const customerId = await world.addCustomer(1_000n)
  const admission = admissionOf(customerId, 300n)
  await ledger.admit(admission)
  const lost = proxy.cutAfter(0)
  const settled = settle(ledger, settlementOf(admission, 300n, 250n))
  settled.catch(() => {})
  await lost
  proxy.cut()
  monotonicMs += 10_000
  await expect(settled).rejects.toMatchObject({ code: 'settlement_unavailable' })
  proxy.pass()
  expect(await ledger.drain(5_000)).toBe(0)
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 750n })
})

test('settlements wait while PostgreSQL is away and are committed when it is back', async () => {
  const customerId = await world.addCustomer(1_000n)
  const admissions = [admissionOf(customerId, 300n), admissionOf(customerId, 300n)] as const
  await Promise.all(admissions.map(admission => ledger.admit(admission)))
  proxy.cut()
  const voided = settle(ledger, settlementOf(admissions[1], 300n, 250n))
  voided.catch(() => {})
  monotonicMs += 5_000
  const settled = settle(ledger, settlementOf(admissions[0], 300n, 250n))
  expect(ledger.pending.settlements).toBe(2)
  expect(await ledger.drain(1)).toBe(2)
  monotonicMs += 5_000
  await expect(voided).rejects.toMatchObject({ code: 'settlement_unavailable' })
  proxy.pass()
  await settled
  expect(await ledger.drain(5_000)).toBe(0)
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 750n, leasedNanos: 0n })
  const { rows } = await world.pool.query(
    `SELECT outcome, success, input_tokens, cost_nanos, writeoff_nanos FROM usage_event WHERE request_id = $1`,
    [admissions[1].requestId],
  )
  expect(rows).toEqual([
    { outcome: 'internal_error', success: false, input_tokens: 0, cost_nanos: 0n, writeoff_nanos: 250n },
  ])
  expect(await world.violations()).toEqual([])
})

test('an admission without an answer in two seconds is given up, and its lease is released', async () => {
  const customerId = await world.addCustomer(1_000n)
  const lost = proxy.cutAfter(0)
  const admitted = ledger.admit(admissionOf(customerId, 300n))
  admitted.catch(() => {})
  await lost
  proxy.cut()
  expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: 300n })
  monotonicMs += 2_000
  await expect(admitted).rejects.toMatchObject({ code: 'database_unavailable' })
  proxy.pass()
  await ledger.drain(10_000)
  expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: 1_000n, leasedNanos: 0n })
  expect(await world.violations()).toEqual([])
})

test('a request that is admitted at its second try keeps its lease although the first try broke off', async () => {
  const customerId = await world.addCustomer(1_000n)
  const others = storeOf(world.pool)
  const [leaseId, otherNode] = [randomUUIDv7(), randomUUIDv7()]
  await others.registerNode(otherNode)
  const bulk = { leaseId, customerId, limits: unlimited, wantNanos: 500n, floorNanos: 1n, slots: 20 }
  expect(await others.admit(otherNode, [bulk])).toMatchObject([{ kind: 'granted', heldNanos: 250n }])
  const lost = proxy.cutAfter(0)
  const admitted = ledger.admit(admissionOf(customerId, 800n))
  await lost
  // Refused twice: once with a lost answer and once with an answer. Then it waits for the leases of other nodes.
  await expect.poll(() => world.dayCounted(customerId)).toBe(22)
  await others.handBack([{ leaseId, keepNanos: null, slotsUsed: 20 }])
  expect(await admitted).toMatchObject({ kind: 'granted', hold: { nanos: 800n } })
  await ledger.drain(5_000)
  // Counted when it was refused, so the retry is not counted again in the day. A new minute may have begun,
  // which counts it.
  expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: 800n })
  expect(await world.dayCounted(customerId)).toBe(22)
  expect(await world.violations()).toEqual([])
})

test('killing connections repeatedly under traffic loses no charge and charges none twice', async () => {
  const customers = await Promise.all(Array.from({ length: 5 }, () => world.addCustomer(100_000n)))
  const KILLS = 12
  let [settled, kills, working] = [0, 0, true]
  const workers = Array.from({ length: 24 }, async (_, i) => {
    const customerId = customers[i % customers.length]!
    while (working) {
      const admission = admissionOf(customerId, 10n)
      const { kind } = await ledger.admit(admission)
      expect(kind).toBe('granted')
      await settle(ledger, settlementOf(admission, 10n, 7n))
      settled++
    }
  })
  while (kills < KILLS) {
    const before = settled
    await world.pool.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'cut off'`)
    kills++
    while (settled < before + 50) await setImmediate()
  }
  working = false
  await Promise.all(workers)
  expect(await ledger.drain(5_000)).toBe(0)
  const balances = await Promise.all(customers.map(customerId => readBalance(world.pool, customerId)))
  const spent = balances.reduce((sum, balance) => sum + 100_000n - balance!.postedNanos, 0n)
  expect(spent).toBe(BigInt(settled) * 7n)
  expect(balances.every(balance => balance!.leasedNanos === 0n)).toBe(true)
  expect(await world.violations()).toEqual([])
})
