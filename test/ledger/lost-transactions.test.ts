import { expect, test } from 'vitest'
import type { Hold } from '../../src/domain/handoff.ts'
import { readBalance } from '../../src/ledger/accounts/read-balance.ts'
import type { Admission } from '../../src/ledger/leases/admission.ts'
import { copyDatabase } from '../harness/lose-transactions.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { admissionOf, settlementOf, type TestNode, useLedgerWorld } from './ledger-world.ts'

// A failover to an asynchronous standby that lacks the last transactions: leases that had ended are open again, and
// leases and charges that were confirmed do not exist.

const USD = 1_000_000_000n
const HOLD = 1_000_000n
const COST = 700_000n

const world = useLedgerWorld('test')

type Running = readonly [Admission, Hold]

async function admit(node: TestNode, customerId: string): Promise<Running> {
  const admission = admissionOf(customerId, HOLD)
  const result = await node.ledger.admit(admission)
  if (result.kind !== 'granted') throw new Error(result.kind)
  return [admission, result.hold]
}

/** Sends requests until one is admitted by a bulk lease. */
async function admitInMemory(node: TestNode, customerId: string): Promise<Running> {
  for (;;) {
    const running = await admit(node, customerId)
    const [{ requestId }, { leaseId }] = running
    if (leaseId !== requestId) return running
    await end(node, running)
  }
}

function end(node: TestNode, [admission, hold]: Running): Promise<void> {
  return node.ledger.settle({ ...settlementOf(admission, HOLD, COST), leaseId: hold.leaseId }, hold)
}

async function openLeases(): Promise<string[]> {
  const { rows } = await world.pool.query<{ lease_id: string }>('SELECT lease_id FROM lease')
  return rows.map(row => row.lease_id)
}

async function costOf([{ requestId }]: Running): Promise<bigint | undefined> {
  const { rows } = await world.pool.query<{ cost: bigint }>(
    'SELECT cost_nanos AS cost FROM usage_event WHERE request_id = $1',
    [requestId],
  )
  return rows[0]?.cost
}

test('after a failover that loses transactions no hold is left over, and the lost charges are made again', async () => {
  const node = await world.addLivingNode({ bulkLeases: true })
  const [strict, bulk, late] = [
    await world.addCustomer(USD / 2n),
    await world.addCustomer(100n * USD),
    await world.addCustomer(100n * USD),
  ]
  const [endsInTail, runsOn] = [await admit(node, strict), await admit(node, strict)]
  const reopened = await admitInMemory(node, bulk)

  const standby = await copyDatabase(world)
  // Confirmed by the database that is about to be lost.
  await end(node, endsInTail)
  await end(node, reopened)
  node.ledger.recall([reopened[1].leaseId])
  await expect.poll(openLeases, WAIT_OPTIONS).not.toContain(reopened[1].leaseId)
  const beganInTail = await admit(node, strict)
  const onLostLease = await admitInMemory(node, late)
  await standby.failOver()

  // Only the request that ran at both times still has its lease.
  await expect.poll(openLeases, WAIT_OPTIONS).toEqual([runsOn[1].leaseId])
  expect(await costOf(endsInTail)).toBe(COST)
  expect(await costOf(reopened)).toBe(COST)
  // The lost bulk lease admits nothing more.
  const [{ requestId }, hold] = await admit(node, late)
  expect(hold.leaseId === requestId || (await openLeases()).includes(hold.leaseId)).toBe(true)

  for (const running of [runsOn, beganInTail, onLostLease]) await end(node, running)
  for (const running of [runsOn, beganInTail, onLostLease])
    await expect.poll(() => costOf(running), WAIT_OPTIONS).toBe(COST)
  expect(await readBalance(world.pool, strict)).toMatchObject({ postedNanos: USD / 2n - 3n * COST, leasedNanos: 0n })
  expect(await world.violations()).toEqual([])
})

test('a lease that nothing on its living node uses is ended', async () => {
  const node = await world.addLivingNode()
  const customerId = await world.addCustomer(USD)
  const running = await admit(node, customerId)
  // A statement that PostgreSQL executed long after its connection had broken.
  await world.pool.query(
    `WITH granted AS (INSERT INTO lease (lease_id, customer_id, node_id, granted_nanos, cap_day)
       SELECT gen_random_uuid(), customer_id, node_id, 5, cap_day FROM lease RETURNING customer_id)
     UPDATE balance SET leased_nanos = leased_nanos + 5, day_leased_nanos = day_leased_nanos + 5`,
  )
  for (let heartbeat = 0; heartbeat < 60; heartbeat++) node.ledger.onBeat(false)
  await expect.poll(openLeases, WAIT_OPTIONS).toEqual([running[1].leaseId])
  expect(await readBalance(world.pool, customerId)).toMatchObject({ leasedNanos: HOLD })
  expect(await world.violations()).toEqual([])
})
