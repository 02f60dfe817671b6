// Every function that locks several balances or several bulk leases does so in the order of their ids. Settlements
// lock bulk leases without the balance row, so that row cannot order them.
import { randomUUIDv7 } from 'node:crypto'
import { expect, test } from 'vitest'
import { encodeSettlements } from '../../src/ledger/settlement/settlement-record.ts'
import { storeOf } from '../harness/store-of.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
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
    await expect.poll(world.blockedSessions, WAIT_OPTIONS).toBe(underWay.length)
  }
  const ended = Promise.allSettled(underWay)
  await other.query('COMMIT')
  other.release()
  return (await ended).map(outcome => (outcome.status === 'rejected' ? String(outcome.reason) : 'done'))
}

/** Starts the work while another session has locked the row `ids[at]`. Returns the rows that are free while it waits. */
async function freeWhileWaiting(
  rowsOf: 'balance' | 'lease',
  ids: readonly string[],
  at: number,
  work: () => Promise<unknown>,
) {
  const column = rowsOf === 'balance' ? 'customer_id' : 'lease_id'
  const other = await world.pool.pg.connect()
  await other.query('BEGIN')
  await other.query('SET LOCAL idle_in_transaction_session_timeout = 0')
  await other.query(`SELECT FROM ${rowsOf} WHERE ${column} = $1 FOR UPDATE`, [ids[at]])
  const working = work()
  await expect.poll(world.blockedSessions, WAIT_OPTIONS).toBe(1)
  const { rows } = await world.pool.query<{ id: string }>(
    `SELECT ${column} AS id FROM ${rowsOf} WHERE ${column} = ANY ($1) FOR UPDATE SKIP LOCKED`,
    [ids],
  )
  await other.query('COMMIT')
  other.release()
  await working
  return rows.map(({ id }) => id).toSorted()
}

test('an admission locks the balances of its customers in the order of their ids', async () => {
  await world.pool.query("ALTER FUNCTION admit_batch SET lock_timeout = '0'")
  const { nodeId } = await world.addNode()
  const customers: string[] = []
  for (let n = 0; n < 20; n++) customers.push(await world.addCustomer(USD))
  const rising = customers.toSorted()
  const admit = () =>
    storeOf(world.pool).admit(
      nodeId,
      rising.toReversed().map(customerId => admissionOf(customerId, 10n)),
    )
  expect(await freeWhileWaiting('balance', rising, 9, admit)).toEqual(rising.slice(10))
})

test.each(['rising', 'falling'] as const)(
  'a settlement locks bulk leases in the order of their ids: ids are %s',
  async order => {
    await world.pool.query("ALTER FUNCTION settle_batch SET lock_timeout = '0'")
    const { leaseIds, settle } = await addBusyNode(order)
    expect(await freeWhileWaiting('lease', leaseIds, 0, settle)).toEqual([leaseIds[1]])
    expect(await world.violations()).toEqual([])
  },
)

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
