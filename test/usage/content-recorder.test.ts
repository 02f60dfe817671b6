import { randomUUID, randomUUIDv7 } from 'node:crypto'
import { expect, test, vi } from 'vitest'
import { createPool } from '../../src/base/db/pool.ts'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import { addCustomer } from '../../src/money/accounts/customers.ts'
import { ContentRecorder } from '../../src/money/usage/content/content-recorder.ts'
import { addContentDays } from '../../src/money/usage/content/keep-content-days.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useTestDatabase } from '../harness/use-test-app.ts'

const database = useTestDatabase()

const countOfRows = async (customerId: string) => {
  const { rows } = await database.pool.query<{ count: number }>(
    'SELECT count(*)::int FROM request_content WHERE customer_id = $1',
    [customerId],
  )
  return rows[0]?.count
}

async function newCustomer(): Promise<string> {
  await addContentDays(database.pool, Date.now())
  return (await addCustomer(database.pool, { email: `${randomUUID()}@example.com`, accountTier: 'standard' }))!
    .customerId
}

function recorderFor(customerId: string, sql = database.pool, speed = 1) {
  const warn = vi.fn<(facts: object, message: string) => void>()
  const onLost = vi.fn<(requests: number) => void>()
  const recorder = new ContentRecorder({
    sql,
    redact: async texts => ({ texts: texts.map(({ text }) => text), redactions: 0 }),
    seal: text => Buffer.from(text),
    scheduler: { after: (ms, work) => systemScheduler.after(ms / speed, work) },
    clock: systemScheduler,
    onLost,
    log: { warn },
  })
  const record = (count: number) =>
    Promise.all(
      Array.from({ length: count }, () =>
        recorder.record({
          requestId: randomUUIDv7(),
          customerId,
          messages: [],
          answer: [{ text: 'Hello', length: 5 }],
          isCut: false,
        }),
      ),
    )
  return { recorder, record, warn, onLost }
}

/** Runs `work` while nobody can write recorded content. */
async function whileLocked(work: (isWaiting: () => Promise<void>, unlock: () => Promise<unknown>) => Promise<void>) {
  const holder = await database.pool.pg.connect()
  await holder.query('BEGIN')
  await holder.query('LOCK TABLE request_content IN ACCESS EXCLUSIVE MODE')
  const isWaiting = () =>
    vi.waitFor(async () => {
      const { rows } = await database.pool.query(
        "SELECT FROM pg_locks WHERE relation = 'request_content'::regclass AND NOT granted",
      )
      expect(rows).toHaveLength(1)
    }, WAIT_OPTIONS)
  try {
    await work(isWaiting, () => holder.query('COMMIT'))
  } finally {
    await holder.query('ROLLBACK')
    holder.release()
  }
}

test('a stop writes all that waits, also more than two batches', async () => {
  const customerId = await newCustomer()
  const { recorder, record, warn } = recorderFor(customerId)
  await record(401)
  await recorder.close()
  expect(await countOfRows(customerId)).toBe(401)
  expect(warn).not.toHaveBeenCalled()
})

test('a stop waits for the batch that is being written, and for what came since', async () => {
  const customerId = await newCustomer()
  const { recorder, record } = recorderFor(customerId)
  let closed: Promise<void> | undefined
  await whileLocked(async (isWaiting, unlock) => {
    await record(200)
    await isWaiting()
    await record(3)
    closed = recorder.close()
    await unlock()
  })
  await closed
  expect(await countOfRows(customerId)).toBe(203)
})

test('a stop gives up when PostgreSQL does not answer, and says what is lost', async () => {
  const customerId = await newCustomer()
  const pool = createPool(database.connection, { max: 1, applicationName: 'recorder', lockTimeoutMs: 0 })
  const { recorder, record, warn, onLost } = recorderFor(customerId, pool, 100)
  await whileLocked(async isWaiting => {
    await record(200)
    await isWaiting()
    await record(2)
    await recorder.close()
  })
  expect(warn.mock.calls).toEqual([[{ reason: expect.any(String), requests: 2 }, expect.any(String)]])
  expect(onLost.mock.calls).toEqual([[2]])
  await pool.end()
})

test('what ends after its customer was deleted is not recorded, and loses nothing of others', async () => {
  const [customerId, deleted] = [await newCustomer(), await newCustomer()]
  await database.pool.query('UPDATE customer SET deleted_at = now() WHERE customer_id = $1', [deleted])
  const { recorder, record } = recorderFor(customerId)
  await record(1)
  await recorder.record({
    requestId: randomUUIDv7(),
    customerId: deleted,
    messages: [],
    answer: [{ text: 'Bye', length: 3 }],
    isCut: false,
  })
  await recorder.close()
  expect(await countOfRows(customerId)).toBe(1)
  expect(await countOfRows(deleted)).toBe(0)
})
