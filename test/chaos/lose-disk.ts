import { rm } from 'node:fs/promises'
import { setTimeout as delay } from 'node:timers/promises'
import type { Sent } from './customer.ts'
import { eventually } from './eventually.ts'
import type { Scenario } from './scenario.ts'
import { sendChat } from './send-chat.ts'
import { verdictOn } from './verdict.ts'

const USD = 1_000_000_000n

/**
 * A node that cannot reach PostgreSQL is killed, and its data directory is gone with whatever it had not passed on. Its customers pay nothing
 * for that, and what was held for them comes back. The one case in which the platform gives money up.
 */
export function loseDisk(): Scenario {
  return {
    name: 'the disk is lost',
    async run(world) {
      await world.running('survivor')
      const node = await world.running('lost')
      const customers = await Promise.all([200n * USD, 5n * USD].map(usd => world.openCustomer(usd)))
      const running = Array.from({ length: 6 }, (_, i) =>
        sendChat(node, customers[i % 2]!, { stream: i % 3 !== 0, words: 10, gapMs: i % 3 !== 0 ? 50 : 500 }),
      )
      const sentOn = () => customers.reduce((sum, { customerId }) => sum + world.modelServer.tagsOf(customerId).size, 0)
      await eventually('its requests run', () => sentOn() === running.length)
      world.proxy('lost').stall()
      // Long enough for every answer to end, be it with or without its last bytes.
      await Promise.race([Promise.all(running), delay(2_000)])
      node.signal('SIGKILL')
      await node.exited
      await rm(node.dataDir, { recursive: true, force: true })
      world.proxy('lost').pass()
      const all = await Promise.all(running)
      const again = await sendChat(await world.start('lost'), customers[0]!)
      const isLost = (sent: Sent) => all.includes(sent)
      return {
        customers,
        problems: again.ending === 'whole' ? [] : [`after its restart it answers ${again.ending} ${again.errorCode}`],
        note: `${all.filter(({ ending }) => ending === 'whole').length} answered before`,
        settled: () => verdictOn(world, customers, { uncharged: isLost, writeoffs: true }),
      }
    },
  }
}
