import { expect, test } from 'vitest'
import { createPool, transaction } from '../../src/base/db/pool.ts'
import { useJobWorld } from '../jobs/job-world.ts'

const world = useJobWorld()

// Went wrong: on the first day of a month no gateway could start until a running dump had ended (fixed in 75e059c).
test('a gateway starts while a backup reads the usage rows', async () => {
  const queuePool = createPool(world.database.connection, { max: 3, applicationName: 'test queue', forQueue: true })
  const pool = createPool(world.database.connection, { max: 3, applicationName: 'test jobs', lockTimeoutMs: 50 })
  const partitions = async () => {
    const { rows } = await pool.query(`SELECT FROM pg_inherits WHERE inhparent = 'usage_event'::regclass`)
    return rows.length
  }
  await transaction(world.database.pool, async backup => {
    await backup.query('LOCK TABLE usage_event IN ACCESS SHARE MODE')
    const jobs = await world.startJobs(queuePool, pool)
    expect(world.log.warn).toHaveBeenCalledWith(
      { err: expect.objectContaining({ message: expect.stringContaining('lock timeout') }) },
      expect.stringContaining('no partitions'),
    )
    await jobs.stop()
  })
  expect(await partitions()).toBe(1)
  const jobs = await world.startJobs(queuePool, pool)
  expect(await partitions()).toBe(4)
  await jobs.stop()
  await Promise.all([queuePool.end(), pool.end()])
})
