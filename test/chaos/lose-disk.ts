import { rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { Sent } from './customer.ts'
import { eventually } from './eventually.ts'
import type { Scenario } from './scenario.ts'
import { sendRequest } from './send-request.ts'
import { verdictOn } from './verdict.ts'

/**
 * Kills a node that cannot reach PostgreSQL and deletes its data directory with all uncommitted charges. Its customers pay nothing, and their
 * holds are released. The platform bears the loss.
 */
export function loseDisk(): Scenario {
  return {
    name: 'the disk is lost',
    async run(world) {
      await world.running('survivor')
      const node = await world.running('lost')
      const customers = await world.openTwoCustomers()
      const running = Array.from({ length: 6 }, (_, i) =>
        sendRequest(node, customers[i % 2]!, { stream: i % 3 !== 0, words: 10, gapMs: i % 3 !== 0 ? 50 : 500 }),
      )
      const sentOn = () => customers.reduce((sum, { customerId }) => sum + world.modelServer.tagsOf(customerId).size, 0)
      await eventually('its requests reach the model server', () => sentOn() === running.length)
      world.proxy('lost').stall()
      // Enough time for every answer to end, with or without its last bytes.
      await Promise.race([Promise.all(running), delay(2_000)])
      node.signal('SIGKILL')
      await node.exited
      await rm(node.dataDir, { recursive: true, force: true })
      world.proxy('lost').pass()
      const all = await Promise.all(running)
      const again = await sendRequest(await world.start('lost'), customers[0]!)
      const isLost = (sent: Sent) => all.includes(sent)
      return {
        customers,
        problems:
          again.ending === 'complete' ? [] : [`after its restart a request ended ${again.ending} ${again.errorCode}`],
        note: `${all.filter(({ ending }) => ending === 'complete').length} answered before the loss`,
        settled: () => verdictOn(world, customers, { uncharged: isLost, writeoffs: true }),
      }
    },
  }
}
