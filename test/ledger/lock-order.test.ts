// Every function that locks several bulk leases does so in the order of their ids. Settlements lock them
// without the balance row, so that row cannot order them.
import { randomUUIDv7 } from 'node:crypto'
import { expect, test } from 'vitest'
import { encodeSettlements } from '../../src/ledger/settlement/settlement-record.ts'
import { storeOf } from '../harness/store-of.ts'
import { admissionOf, settlementOf, unlimited, useLedgerWorld } from './ledger-world.ts'

const USD = 1_000_000_000n

const world = useLedgerWorld('test')

/** Adds a node with two bulk leases of one customer. Their rows are in the table in this order. */
async function addBusyNode(order: 'rising' | 'falling') {
  const store = storeOf(world.pool)
  const { nodeId } = await world.addNode()
  const customerId = await world.addCustomer(16n * USD)
  const leaseIds = [randomUUIDv7(), randomUUIDv7()].toSorted()
  for (const leaseId of order === 'rising' ? leaseIds : leaseIds.toReversed()) {
    const request = { leaseId, customerId, limits: unlimited, wantNanos: USD, floorNanos: USD, slots: 20 }
    expect(await store.admit(nodeId, [request])).toMatchObject([{ kind: 'granted', heldNanos: USD }])
  }
  const settlements = encodeSettlements(
    leaseIds.map(leaseId => settlementOf(admissionOf(customerId, 10n), 10n, 7n, { leaseId })),
  )
  return { nodeId, customerId, leaseIds, settle: () => store.settle(1, settlements) }
}

/**
 * Starts the works one after the other while another session has locked the lease, so that both wait for it.
 * Returns their results.
 */
async function meetAt(leaseId: string, works: (() => Promise<unknown>)[]) {
  const other = await world.pool.pg.connect()
  await other.query('BEGIN')
  await other.query('SELECT FROM lease WHERE lease_id = $1 FOR UPDATE', [leaseId])
  const underWay: Promise<unknown>[] = []
  for (const work of works) {
    underWay.push(work())
    await expect.poll(blockedSessions).toBe(underWay.length)
  }
  const ended = Promise.allSettled(underWay)
  await other.query('COMMIT')
  other.release()
  return (await ended).map(outcome => (outcome.status === 'rejected' ? String(outcome.reason) : 'done'))
}

async function blockedSessions() {
  const { rows } = await world.pool.query<{ count: number }>(
    `SELECT count(*)::integer AS count FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
  )
  return rows[0]!.count
}

test.each(['rising', 'falling'] as const)(
  'an admission that recalls the leases of another node and a settlement of that node do not deadlock: ids are %s',
  async order => {
    const { customerId, leaseIds, settle } = await addBusyNode(order)
    const { nodeId } = await world.addNode()
    const recall = () => storeOf(world.pool).admit(nodeId, [admissionOf(customerId, 15n * USD)])
    expect(await meetAt(leaseIds[0]!, [settle, recall])).toEqual(['done', 'done'])
    expect(await world.violations()).toEqual([])
  },
)

test.each(['rising', 'falling'] as const)(
  'reclaiming the leases of a dead node and a settlement of that node do not deadlock: ids are %s',
  async order => {
    const { nodeId, customerId, leaseIds, settle } = await addBusyNode(order)
    await storeOf(world.pool).retireNode(nodeId)
    const reclaim = () => world.pool.query('SELECT reclaim_leases($1, 2::smallint)', [customerId])
    expect(await meetAt(leaseIds[0]!, [settle, reclaim])).toEqual(['done', 'done'])
    expect(await world.violations()).toEqual([])
  },
)
