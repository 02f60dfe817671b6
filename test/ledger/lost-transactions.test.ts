import { expect, test, vi } from 'vitest'
import type { Hold } from '../../src/base/domain/handoff.ts'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { readBalance } from '../../src/money/ledger/accounts/read-balance.ts'
import { openJournal } from '../../src/money/ledger/journal/journal.ts'
import type { Admission } from '../../src/money/ledger/leases/admission.ts'
import { copyDatabase } from '../harness/lose-transactions.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { createMemoryDisk } from '../journal/memory-disk.ts'
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

/** While the table has a row, PostgreSQL settles nothing: as if its disk were full. */
const refuseSettlements = `
  CREATE TABLE full_disk (is_full boolean);
  CREATE FUNCTION refuse_when_full() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF EXISTS (SELECT FROM full_disk) THEN RAISE EXCEPTION 'planned' USING ERRCODE = '53100'; END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER refuse_when_full BEFORE INSERT ON usage_event FOR EACH STATEMENT EXECUTE FUNCTION refuse_when_full();
  GRANT SELECT ON full_disk TO PUBLIC`

/**
 * Loses the charges of three answers that their client has, and takes over with a PostgreSQL that settles nothing. The
 * node voids what waits longer than an instant. Resolves when it has tried for longer than two rounds of voiding.
 */
async function loseDelivered() {
  const disk = createMemoryDisk()
  // Small segments, so that the journal really forgets what it need not keep.
  const openOwn = () => openJournal({ disk, scheduler: systemScheduler, fsync: false, segmentBytes: 1 })
  const log = { warn: vi.fn(), error: vi.fn() }
  const node = await world.addLivingNode({ journal: openOwn().journal, commitWaitMs: 0, log })
  const customerId = await world.addCustomer(USD)
  await world.pool.query(refuseSettlements)
  const delivered = [await admit(node, customerId), await admit(node, customerId), await admit(node, customerId)]
  await world.pool.query('INSERT INTO full_disk VALUES (true)')
  const standby = await copyDatabase(world)
  await world.pool.query('TRUNCATE full_disk')
  for (const running of delivered) await end(node, running)
  for (const running of delivered) await expect.poll(() => costOf(running), WAIT_OPTIONS).toBe(COST)
  await standby.failOver()
  const later = await admit(node, customerId)
  await expect.poll(() => node.ledger.pending.settlements, WAIT_OPTIONS).toBe(3)
  // A settlement makes the node look for overdue ones.
  await end(node, later)
  log.warn.mockClear()
  const failures = () => log.warn.mock.calls.filter(([, message]) => message.includes('settlements')).length
  // The waits between these attempts take 1.2 s together.
  await expect.poll(failures, WAIT_OPTIONS).toBeGreaterThanOrEqual(7)
  return { node, customerId, answers: [...delivered, later], openOwn }
}

test('delivered answers are charged however long it takes to settle them again', async () => {
  const { customerId, answers } = await loseDelivered()
  await world.pool.query('TRUNCATE full_disk')
  for (const running of answers) await expect.poll(() => costOf(running), WAIT_OPTIONS).toBe(COST)
  expect((await readBalance(world.pool, customerId))!.postedNanos).toBe(USD - 4n * COST)
  expect(await world.violations()).toEqual([])
})

test('a node that dies while it settles delivered answers again leaves them to the next one', async () => {
  const { node, customerId, answers, openOwn } = await loseDelivered()
  node.ledger.stop()
  await world.pool.query('TRUNCATE full_disk')
  const { journal, recovered } = openOwn()
  const next = await world.addLivingNode({ journal })
  await next.ledger.replay(recovered.map(({ payload, entry }) => ({ payload, forget: () => journal.forget(entry) })))
  for (const running of answers) expect(await costOf(running)).toBe(COST)
  expect((await readBalance(world.pool, customerId))!.postedNanos).toBe(USD - 4n * COST)
  expect(await world.violations()).toEqual([])
})

test('a second failover loses charges that were made again: they are made once more', async () => {
  const { customerId, answers } = await loseDelivered()
  const standby = await copyDatabase(world)
  await world.pool.query('TRUNCATE full_disk')
  for (const running of answers) await expect.poll(() => costOf(running), WAIT_OPTIONS).toBe(COST)
  await standby.failOver()
  await world.pool.query('TRUNCATE full_disk')
  for (const running of answers) await expect.poll(() => costOf(running), WAIT_OPTIONS).toBe(COST)
  expect((await readBalance(world.pool, customerId))!.postedNanos).toBe(USD - 4n * COST)
  expect(await world.violations()).toEqual([])
})

test('charges that a process replays, although they are committed, are lost by a failover: it makes them again', async () => {
  const disk = createMemoryDisk()
  const openOwn = () => openJournal({ disk, scheduler: systemScheduler, fsync: false })
  const node = await world.addNode({ journal: openOwn().journal })
  const customerId = await world.addCustomer(USD)
  const delivered = await admit(node, customerId)
  const standby = await copyDatabase(world)
  await end(node, delivered)
  await expect.poll(() => costOf(delivered), WAIT_OPTIONS).toBe(COST)
  // The segment of the journal still has the record.
  node.ledger.stop()
  const { journal, recovered } = openOwn()
  const next = await world.addLivingNode({ journal })
  expect(
    await next.ledger.replay(recovered.map(({ payload, entry }) => ({ payload, forget: () => journal.forget(entry) }))),
  ).toBe(1)
  await standby.failOver()
  await expect.poll(() => costOf(delivered), WAIT_OPTIONS).toBe(COST)
  expect(await world.violations()).toEqual([])
})

test('a node that stops before it notices a failover makes the lost charges again', async () => {
  const node = await world.addNode()
  const customerId = await world.addCustomer(USD)
  const delivered = await admit(node, customerId)
  const standby = await copyDatabase(world)
  await end(node, delivered)
  await standby.failOver()
  expect(await costOf(delivered)).toBeUndefined()
  expect(await node.ledger.drain(10_000)).toBe(0)
  expect(await costOf(delivered)).toBe(COST)
  expect((await readBalance(world.pool, customerId))!.leasedNanos).toBe(0n)
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
