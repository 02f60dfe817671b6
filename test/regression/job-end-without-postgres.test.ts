import { expect, test, vi } from 'vitest'
import { createPool } from '../../src/base/db/pool.ts'
import { startFaultProxy } from '../harness/fault-proxy.ts'
import { WAIT_OPTIONS } from '../harness/timeouts.ts'
import { useJobWorld } from '../jobs/job-world.ts'

const world = useJobWorld()

// Went wrong: the rejected statement that recorded the end of a job was unhandled, which ended the process (fixed in 560f237).
test('a job that ends while PostgreSQL is down does not end the process, and the queue continues afterwards', async () => {
  const proxy = await startFaultProxy(world.database.connection)
  const queuePool = createPool(proxy.connection, { max: 3, applicationName: 'test queue', forQueue: true })
  const jobs = await world.startJobs(queuePool)
  try {
    const asked = Promise.withResolvers<() => void>()
    world.receiver.answerWith(response => asked.resolve(() => response.writeHead(204).end()))
    await world.raiseAlert()
    const answer = await asked.promise
    proxy.cut()
    answer()
    await vi.waitFor(
      () => expect(world.log.error).toHaveBeenCalledWith(expect.anything(), expect.stringMatching(/Failed to .* jobs/)),
      WAIT_OPTIONS,
    )
    // The scheduled audit may be locked too.
    expect(await world.lockedTasks()).toContain('deliver_alert')
    proxy.pass()
    await vi.waitFor(async () => expect(await world.lockedTasks()).toEqual([]), WAIT_OPTIONS)
    await world.raiseAlert()
    const all = await world.receiver.arrived(2)
    expect(new Set(all.map(({ headers }) => headers['webhook-id'])).size).toBe(2)
  } finally {
    await jobs.stop()
    await queuePool.end()
    await proxy.close()
  }
})
