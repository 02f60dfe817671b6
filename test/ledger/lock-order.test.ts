// Every function that locks several balances or several bulk leases does so in the order of their ids. Settlements
// lock bulk leases without the balance row, so that row cannot order them.
import { randomUUIDv7 } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { encodeSettlements } from '../../src/money/ledger/settlement/settlement.ts'
import { storeOf } from '../harness/store-of.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { admissionOf, settlementOf, unlimited, useLedgerWorld } from './ledger-world.ts'

const USD = 1_000_000_000n

const world = useLedgerWorld('test')

// A settlement waits 250 ms for a lock. On a busy machine that ended before the session came that should meet it.
beforeEach(async () => {
  const { rows } = await world.pool.query<{ name: string }>(
    `SELECT oid::regprocedure AS name FROM pg_proc
      WHERE pronamespace = 'public'::regnamespace AND EXISTS (SELECT FROM unnest(proconfig) AS setting WHERE setting LIKE 'lock_timeout=%')`,
  )
  for (const { name } of rows) await world.pool.query(`ALTER FUNCTION ${name} SET lock_timeout = 0`)
})

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

/** Locks a row in another session until the work ends. */
async function whileLocked<T>(rowsOf: 'balance' | 'lease', id: string, work: () => Promise<T>): Promise<T> {
  const other = await world.pool.pg.connect()
  try {
    await other.query('BEGIN')
    await other.query('SET LOCAL idle_in_transaction_session_timeout = 0')
    await other.query(`SELECT FROM ${rowsOf} WHERE ${idOf[rowsOf]} = $1 FOR UPDATE`, [id])
    return await work()
  } finally {
    await other.query('COMMIT')
    other.release()
  }
}

const idOf = { balance: 'customer_id', lease: 'lease_id' }
const blocked = (count: number) => expect.poll(world.blockedSessions, WAIT_OPTIONS).toBe(count)

/** Starts the works one after the other while another session has locked the lease, so that all wait for it. Returns their results. */
async function meetAt(leaseId: string, works: (() => Promise<unknown>)[]): Promise<string[]> {
  const results: Promise<string>[] = []
  await whileLocked('lease', leaseId, async () => {
    for (const work of works) {
      results.push(work().then(() => 'done', String))
      await blocked(results.length)
    }
  })
  return Promise.all(results)
}

/** Starts the work while another session has locked the row `ids[at]`. Returns the rows that are free while it waits. */
async function freeWhileWaiting(
  rowsOf: 'balance' | 'lease',
  ids: readonly string[],
  at: number,
  work: () => Promise<unknown>,
): Promise<string[]> {
  let result: Promise<string> | undefined
  const free = await whileLocked(rowsOf, ids[at]!, async () => {
    result = work().then(() => 'done', String)
    await blocked(1)
    const { rows } = await world.pool.query<{ id: string }>(
      `SELECT ${idOf[rowsOf]} AS id FROM ${rowsOf} WHERE ${idOf[rowsOf]} = ANY ($1) FOR UPDATE SKIP LOCKED`,
      [ids],
    )
    return rows.map(({ id }) => id).toSorted()
  })
  expect(await result).toBe('done')
  return free
}

test('an admission locks the balances of its customers in the order of their ids', async () => {
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
