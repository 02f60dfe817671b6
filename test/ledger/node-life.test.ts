import { randomUUIDv7 } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { createPool, type Pool } from '../../src/base/db/pool.ts'
import { type RunningNode, startNode } from '../../src/jobs/start-node.ts'
import { reclaimDeadLeases } from '../../src/money/ledger/leases/reclaim-dead-leases.ts'
import { HEARTBEAT_MS, type LedgerStore } from '../../src/money/ledger/ledger-store.ts'
import { createPostgresStore } from '../../src/money/ledger/postgres-store.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useResource } from '../harness/use-resource.ts'
import { admissionOf, createLedgerWorld, type LedgerWorld } from './ledger-world.ts'

/** A node with a monotonic clock that only the test moves. */
interface SteppedNode {
  readonly node: RunningNode
  readonly store: LedgerStore
  readonly nowMs: number
  /** Lets a second pass on its clock. Resolves when it has sent its heartbeat. */
  beat(): Promise<void>
}

const world = useResource(
  async () => {
    const world = await createLedgerWorld()
    await world.pool.query(STEPPED_CLOCK)
    await world.pool.query(
      `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = stepped, public, pg_catalog', current_database()); END $$`,
    )
    const stepped = createPool(world.connection, { max: 6, applicationName: 'stepped clock' })
    const stopping: (() => Promise<void>)[] = []
    return { ...world, stepped, stopping }
  },
  async ({ stepped, stopping, drop }) => {
    for (const stop of stopping) await stop()
    await stepped.end()
    await drop()
  },
  'test',
)

/** Replaces the clocks of PostgreSQL for sessions with this schema in front of their search path. */
const STEPPED_CLOCK = `
  CREATE SCHEMA stepped;
  CREATE TABLE stepped.step (by interval NOT NULL);
  INSERT INTO stepped.step VALUES ('0');
  CREATE FUNCTION stepped.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT pg_catalog.now() + by FROM stepped.step';
  CREATE FUNCTION stepped.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT pg_catalog.clock_timestamp() + by FROM stepped.step'`

async function startSteppedNode({
  stepped,
  stopping,
}: LedgerWorld & { stepped: Pool; stopping: (() => Promise<void>)[] }) {
  const store = createPostgresStore({ money: stepped, heartbeat: stepped })
  let nowMs = 0
  let timer: (() => void) | undefined
  let sent: () => void = () => {}
  const node = await startNode({
    store,
    scheduler: {
      epochMs: Date.now,
      monotonicMs: () => nowMs,
      after(_ms, work) {
        timer = work
        return () => {
          timer = undefined
        }
      },
      soon: setImmediate,
    },
    newId: randomUUIDv7,
    nodeShard: 1,
    log: { info() {}, warn() {} },
  })
  node.listen({ onFenced() {}, onRecalled() {}, onBeat: () => sent() })
  stopping.push(() => node.stop())
  const started: SteppedNode = {
    node,
    store,
    get nowMs() {
      return nowMs
    },
    async beat() {
      await vi.waitFor(() => expect(timer).toBeDefined(), WAIT_OPTIONS)
      nowMs += HEARTBEAT_MS
      const beaten = new Promise<void>(resolve => {
        sent = resolve
      })
      timer!()
      await beaten
    },
  }
  return started
}

async function openLeases(): Promise<number> {
  const { rows } = await world.pool.query<{ count: number }>('SELECT count(*)::integer AS count FROM lease')
  return rows[0]!.count
}

test.each([['2 minutes'], ['-1 hour'], ['400 days']])(
  "a step of PostgreSQL's clock by %s takes no lease from a living node",
  async step => {
    const [one, two] = [await startSteppedNode(world), await startSteppedNode(world)]
    const customerId = await world.addCustomer(1_000n)
    await one.store.admit(one.node.nodeId, [admissionOf(customerId, 300n)])
    for (let second = 0; second < 3; second++) await Promise.all([one.beat(), two.beat()])

    await world.pool.query('UPDATE stepped.step SET by = $1', [step])
    const { rows } = await world.stepped.query<{ is_stepped: boolean }>(
      `SELECT abs(extract(epoch FROM now() - pg_catalog.now())) > 60 AS is_stepped`,
    )
    expect(rows).toEqual([{ is_stepped: true }])
    expect(await reclaimDeadLeases(world.stepped, { nodeShard: 2 })).toBe(0)
    for (let second = 0; second < 70; second++) await Promise.all([one.beat(), two.beat()])
    await two.node.reclaimLeases([])
    expect(await openLeases()).toBe(1)
  },
)

test('the holds of a dead node are free 75 s after its last heartbeat, and not before other nodes have missed it for a minute', async () => {
  const [dying, observer] = [await startSteppedNode(world), await startSteppedNode(world)]
  const customers = await Promise.all([1, 2, 3].map(() => world.addCustomer(1_000n)))
  await dying.store.admit(
    dying.node.nodeId,
    customers.map(customerId => admissionOf(customerId, 300n)),
  )
  for (let second = 0; second < 3; second++) await Promise.all([dying.beat(), observer.beat()])
  await dying.node.stop()
  const diedAtMs = observer.nowMs
  while (observer.nowMs - diedAtMs < 64_000) await observer.beat()
  expect(await openLeases()).toBe(3)
  while (observer.nowMs - diedAtMs < 70_000) await observer.beat()
  await expect.poll(openLeases, WAIT_OPTIONS).toBe(0)
  expect(await world.violations()).toEqual([])
})

test('a node that sends a heartbeat while it is being declared dead stays alive', async () => {
  const { store, node } = await startSteppedNode(world)
  const customerId = await world.addCustomer(1_000n)
  await store.admit(node.nodeId, [admissionOf(customerId, 300n)])
  // The heartbeat holds the lock on its row when the other node tries to declare it dead.
  const session = await world.pool.pg.connect()
  await session.query('BEGIN')
  await session.query('UPDATE node_heartbeat SET heartbeats = heartbeats + 1 WHERE node_id = $1', [node.nodeId])
  const reclaimed = reclaimDeadLeases(world.pool, {
    nodeShard: 2,
    silentNodes: [{ nodeId: node.nodeId, heartbeats: 0 }],
  })
  const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  await expect.poll(async () => (await world.pool.query(waiting)).rows.length, WAIT_OPTIONS).toBe(1)
  await session.query('COMMIT')
  session.release()
  expect(await reclaimed).toBe(0)
  expect(await store.heartbeat(node.nodeId, 1)).toMatchObject({ isAlive: true })
})
