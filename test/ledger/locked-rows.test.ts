// One row that another session has locked delays the requests of that customer only.
import { randomUUIDv7 } from 'node:crypto'
import { expect, test } from 'vitest'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { encodeSettlements } from '../../src/money/ledger/settlement/settlement.ts'
import { storeOf } from '../harness/store-of.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { admissionOf, settle, settlementOf, unlimited, useLedgerWorld } from './ledger-world.ts'

const USD = 1_000_000_000n

const world = useLedgerWorld('test')

/** Locks a row until it is released or disposed. */
async function lock(table: 'balance' | 'lease', column: 'customer_id' | 'lease_id', id: string) {
  const session = await world.pool.pg.connect()
  await session.query('BEGIN')
  await session.query('SET LOCAL idle_in_transaction_session_timeout = 0')
  await session.query(`SELECT FROM ${table} WHERE ${column} = $1 FOR UPDATE`, [id])
  let isHeld = true
  const release = async () => {
    if (!isHeld) return
    isHeld = false
    await session.query('ROLLBACK')
    session.release()
  }
  return { release, [Symbol.asyncDispose]: release }
}

const lockBalance = (customerId: string) => lock('balance', 'customer_id', customerId)

async function addBulkLease(nodeId: string, customerId: string): Promise<string> {
  const leaseId = randomUUIDv7()
  const request = { leaseId, customerId, limits: unlimited, wantNanos: USD, floorNanos: USD, slots: 20 }
  expect(await storeOf(world.pool).admit(nodeId, [request])).toMatchObject([{ kind: 'granted' }])
  return leaseId
}

// The first test, because it fails at once where the others would wait until their time limit.
test('a batch that skips locked rows does nothing for their requests and everything for the others', async () => {
  const { nodeId } = await world.addNode()
  const store = storeOf(world.pool)
  const [stuck, free] = [await world.addCustomer(9n * USD), await world.addCustomer(9n * USD)]
  const leases = { stuck: await addBulkLease(nodeId, stuck), free: await addBulkLease(nodeId, free) }
  const strict = { stuck: admissionOf(stuck, 10n), free: admissionOf(free, 10n) }
  await store.admit(nodeId, [strict.stuck, strict.free])
  const bulkSettlements = [leases.stuck, leases.free].map((leaseId, n) =>
    settlementOf(admissionOf([stuck, free][n]!, 10n), 10n, 7n, { leaseId }),
  )
  const strictSettlements = [strict.stuck, strict.free].map(admission => settlementOf(admission, 10n, 7n))
  const before = await readBalance(world.pool, stuck)
  {
    await using _ = await lockBalance(stuck)
    await expect(store.admit(nodeId, [admissionOf(stuck, 10n)])).rejects.toMatchObject({ code: '55P03' })
    const verdicts = await store.admit(nodeId, [admissionOf(stuck, 10n), admissionOf(free, 10n)], true)
    expect(verdicts.toSorted((a, b) => a.item - b.item)).toMatchObject([{ kind: 'locked' }, { kind: 'granted' }])
    const effects = await store.settle(1, encodeSettlements(strictSettlements), true)
    expect(effects).toEqual(new Map([[strict.stuck.requestId, 'locked']]))
    expect(
      await store.handBack(
        [leases.stuck, leases.free].map(leaseId => ({ leaseId, keepNanos: 10n, slotsUsed: 1 })),
        true,
      ),
    ).toEqual(new Set([leases.stuck]))
    expect(await store.release([strict.stuck.requestId])).toEqual(new Map([[strict.stuck.requestId, 'locked']]))
  }
  expect(await readBalance(world.pool, stuck)).toEqual(before)
  {
    await using _ = await lock('lease', 'lease_id', leases.stuck)
    const effects = await store.settle(1, encodeSettlements(bulkSettlements), true)
    expect(effects).toEqual(new Map([[bulkSettlements[0]!.requestId, 'locked']]))
    // Also without skipping: admissions wait for the balances that this call holds.
    expect(await store.handBack([{ leaseId: leases.stuck, keepNanos: null, slotsUsed: 1 }])).toEqual(
      new Set([leases.stuck]),
    )
  }
  expect(await store.settle(1, encodeSettlements([...strictSettlements, ...bulkSettlements]))).toEqual(
    new Map([[strict.free.requestId, 'duplicate']]),
  )
  expect(await world.violations()).toEqual([])
})

test('admissions of other customers go on while a balance is locked, and its own follows after the lock', async () => {
  const node = await world.addNode()
  const customers = await Promise.all(Array.from({ length: 6 }, () => world.addCustomer(USD)))
  const [stuck, ...others] = customers as [string, ...string[]]
  await using locked = await lockBalance(stuck)
  const late = node.ledger.admit(admissionOf(stuck, 10n))
  for (let round = 0; round < 3; round++) {
    const results = await Promise.all(others.map(customerId => node.ledger.admit(admissionOf(customerId, 10n))))
    expect(results.map(({ kind }) => kind)).toEqual(others.map(() => 'granted'))
  }
  await expect.poll(() => node.ledger.pending.admissions, WAIT_OPTIONS).toBe(1)
  await locked.release()
  expect(await late).toMatchObject({ kind: 'granted' })
  expect(await world.violations()).toEqual([])
})

test('a customer with a balance that stays locked gets 503 after two seconds, and its request holds nothing', async () => {
  const node = await world.addNode()
  const stuck = await world.addCustomer(USD)
  await using locked = await lockBalance(stuck)
  await expect(node.ledger.admit(admissionOf(stuck, 10n))).rejects.toMatchObject({ code: 'database_unavailable' })
  await locked.release()
  expect(await node.ledger.drain(5_000)).toBe(0)
  expect(await readBalance(world.pool, stuck)).toMatchObject({ leasedNanos: 0n })
})

test('settlements of other customers are committed while a balance is locked, and its own follows after the lock', async () => {
  const node = await world.addNode({ commitWaitMs: 600_000 })
  const customers = await Promise.all(Array.from({ length: 6 }, () => world.addCustomer(USD)))
  const admissions = customers.map(customerId => admissionOf(customerId, 10n))
  for (const admission of admissions) await node.ledger.admit(admission)
  await using locked = await lockBalance(customers[0]!)
  const [late, ...settled] = admissions.map(admission => settle(node.ledger, settlementOf(admission, 10n, 7n)))
  await Promise.all(settled)
  expect(node.ledger.pending.settlements).toBe(1)
  await locked.release()
  await late
  for (const customerId of customers)
    expect(await readBalance(world.pool, customerId)).toMatchObject({ postedNanos: USD - 7n, leasedNanos: 0n })
  expect(await world.violations()).toEqual([])
})

test('a drain waits for settlements of a locked balance', async () => {
  const node = await world.addNode({ commitWaitMs: 600_000 })
  const stuck = await world.addCustomer(USD)
  const admission = admissionOf(stuck, 10n)
  await node.ledger.admit(admission)
  await using locked = await lockBalance(stuck)
  const settled = settle(node.ledger, settlementOf(admission, 10n, 7n))
  expect(await node.ledger.drain(600)).toBe(1)
  const drained = node.ledger.drain(10_000)
  await locked.release()
  expect(await drained).toBe(0)
  await settled
})

test('a lease that could not be handed back because of a lock is handed back after it', async () => {
  const node = await world.addNode({ bulkLeases: true })
  const customerId = await world.addCustomer(100n * USD)
  for (let n = 0; n < 2; n++) await node.ledger.admit(admissionOf(customerId, USD))
  const { rows } = await world.pool.query<{ lease_id: string }>('SELECT lease_id FROM lease WHERE slots IS NOT NULL')
  await using locked = await lock('lease', 'lease_id', rows[0]!.lease_id)
  const big = node.ledger.admit(admissionOf(customerId, 97n * USD))
  await expect.poll(() => node.ledger.pending.admissions, WAIT_OPTIONS).toBe(1)
  await locked.release()
  expect(await big).toMatchObject({ kind: 'granted' })
  expect(await world.violations()).toEqual([])
})
