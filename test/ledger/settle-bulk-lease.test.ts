// Charges of one bulk lease share what it holds, in one batch and in concurrent ones.
import { randomUUIDv7 } from 'node:crypto'
import { expect, test } from 'vitest'
import { transaction } from '../../src/base/db/pool.ts'
import type { LedgerStore } from '../../src/money/ledger/ledger-store.ts'
import { encodeSettlements, type Settlement } from '../../src/money/ledger/settlement/settlement.ts'
import { storeOf } from '../harness/store-of.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { admissionOf, settlementOf, unlimited, useLedgerWorld } from './ledger-world.ts'

const world = useLedgerWorld()

/** A bulk lease of 100 nano-USD, and two requests of it that cost 60 each. */
async function addLeaseWithTwoCharges() {
  const { nodeId } = await world.addNode()
  const customerId = await world.addCustomer(1_000_000n)
  const leaseId = randomUUIDv7()
  const request = { leaseId, customerId, limits: unlimited, wantNanos: 100n, floorNanos: 100n, slots: 20 }
  expect(await storeOf(world.pool).admit(nodeId, [request])).toMatchObject([{ kind: 'granted', heldNanos: 100n }])
  const charge = () => settlementOf(admissionOf(customerId, 60n), 60n, 60n, { leaseId })
  return { leaseId, first: charge(), second: charge() }
}

const settle = (store: LedgerStore, ...settlements: Settlement[]) => store.settle(1, encodeSettlements(settlements))

async function chargedTo(leaseId: string) {
  const { rows } = await world.pool.query<{ charged: bigint }>(
    'SELECT settled_nanos AS charged FROM lease WHERE lease_id = $1',
    [leaseId],
  )
  return rows[0]!.charged
}

test('the requests of a batch share the room of their bulk lease', async () => {
  const { leaseId, first, second } = await addLeaseWithTwoCharges()
  expect(await settle(storeOf(world.pool), first, second)).toEqual(new Map([[second.requestId, 'fenced']]))
  expect(await chargedTo(leaseId)).toBe(60n)
  expect(await world.violations()).toEqual([])
})

test('a settlement waits for another one of the same bulk lease, and then finds the room that it left', async () => {
  // Without its limit: this test decides how long the first settlement runs.
  await world.pool.query("ALTER FUNCTION settle_batch SET lock_timeout = '0'")
  const { leaseId, first, second } = await addLeaseWithTwoCharges()
  let waiting: Promise<unknown>
  await transaction(world.pool, async sql => {
    expect(await settle(storeOf(sql), first)).toEqual(new Map())
    waiting = settle(storeOf(world.pool), second)
    await expect.poll(world.blockedSessions, WAIT_OPTIONS).toBe(1)
  })
  expect(await waiting!).toEqual(new Map([[second.requestId, 'fenced']]))
  expect(await chargedTo(leaseId)).toBe(60n)
  expect(await world.violations()).toEqual([])
})
