import { expect, test, vi } from 'vitest'
import { createPool, transaction } from '../../src/base/db/pool.ts'
import { keepContent } from '../../src/jobs/keep-content.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { addContentDays } from '../../src/money/usage/content/keep-content-days.ts'
import { useJobWorld } from './job-world.ts'

const world = useJobWorld()
const DAY_MS = 86_400_000

const partitions = async () => {
  const { rows } = await world.database.pool.query<{ name: string }>(
    "SELECT inhrelid::regclass::text AS name FROM pg_inherits WHERE inhparent = 'request_content'::regclass ORDER BY 1",
  )
  return rows.map(({ name }) => name)
}

/** Runs `work` while a dump reads recorded content, with all partitions that exist. */
const duringDump = (work: () => Promise<void>) =>
  transaction(world.database.pool, async dump => {
    await dump.query('LOCK TABLE request_content IN ACCESS SHARE MODE')
    await work()
  })

const keep = (epochMs: number) =>
  keepContent({
    pool: world.database.pool,
    clock: { epochMs: () => epochMs, monotonicMs: () => 0 },
    contentDays: 30,
    log: world.log,
  })

test('a gateway starts while a dump spans midnight, and gets its days', async () => {
  const queuePool = createPool(world.database.connection, { max: 3, applicationName: 'test queue', forQueue: true })
  // Those of yesterday's start.
  await addContentDays(world.database.pool, Date.now() - DAY_MS)
  const before = await partitions()
  await duringDump(async () => {
    const jobs = await world.startJobs(queuePool)
    expect((await partitions()).length).toBe(before.length + 1)
    await jobs.stop()
  })
  expect(world.log.warn).not.toHaveBeenCalledWith(expect.anything(), expect.stringContaining('prompts'))
  await queuePool.end()
})

test('a gateway starts without partitions for recorded content', async () => {
  const queuePool = createPool(world.database.connection, { max: 3, applicationName: 'test queue', forQueue: true })
  await world.database.pool.query('ALTER TABLE request_content RENAME TO request_content_away')
  const jobs = await world.startJobs(queuePool)
  expect(world.log.warn).toHaveBeenCalledWith(expect.anything(), expect.stringContaining('no partitions for prompts'))
  await jobs.stop()
  await queuePool.end()
})

test('nodes that start together add each day once', async () => {
  const added = await Promise.all(
    Array.from({ length: 8 }, () => addContentDays(world.database.pool, Date.now() + 100 * DAY_MS)),
  )
  expect(added.flat().toSorted()).toEqual(await partitions())
  expect(await partitions()).toHaveLength(5)
})

test('old days are dropped once, and not while a dump reads them', async () => {
  await keep(10 * DAY_MS)
  const old = await partitions()
  await duringDump(() => keep(100 * DAY_MS))
  expect(world.log.warn).toHaveBeenCalledWith(expect.anything(), expect.stringContaining('dropping them in an hour'))
  expect(await partitions()).toEqual(expect.arrayContaining(old))
  await Promise.allSettled([keep(100 * DAY_MS), keep(100 * DAY_MS)])
  await keep(100 * DAY_MS)
  expect(await partitions()).not.toEqual(expect.arrayContaining(old))
  expect(await partitions()).toHaveLength(5)
})

test('what was written while its customer was deleted is deleted later', async () => {
  const { pool } = world.database
  await addContentDays(pool, Date.now())
  const ids = await Promise.all(
    ['ada@example.com', 'bob@example.com'].map(
      async email => (await addCustomer(pool, { email, accountTier: 'standard' }))!.customerId,
    ),
  )
  await pool.query(
    "INSERT INTO request_content SELECT lowest_uuid_of(current_date + n::int), id, '' FROM unnest($1::uuid[]) WITH ORDINALITY AS row (id, n)",
    [ids],
  )
  await pool.query('UPDATE customer SET deleted_at = now() WHERE customer_id = $1', [ids[0]])
  await keep(Date.now())
  const { rows } = await pool.query('SELECT customer_id FROM request_content')
  expect(rows).toEqual([{ customer_id: ids[1] }])
  expect(vi.mocked(world.log.info)).toHaveBeenCalledWith({ requests: 1 }, expect.any(String))
})
