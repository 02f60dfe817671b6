import { setTimeout as delay } from 'node:timers/promises'
import type { FailpointName } from '../../src/runtime/failpoint.ts'
import { eventually } from './eventually.ts'
import { runLoad, seededRandom } from './load.ts'
import type { Scenario } from './scenario.ts'
import { sendChat } from './send-chat.ts'
import { verdictOn } from './verdict.ts'

const USD = 1_000_000_000n
/** Others take its leases after 15 s without a heartbeat and 60 s of grace. */
const RECLAIMED_AFTER_S = 75

/**
 * SIGSTOP in the middle of its requests, or by itself where the first of them passes the failpoint `at`; SIGCONT after `seconds`. Meanwhile
 * another node serves the same customers. Short of 75 s it still owns its leases and charges what it serves; after that its answers may
 * turn out free.
 */
export function pauseNode(seconds: number, at?: FailpointName): Scenario {
  const name = at === undefined ? `paused-${seconds}` : `paused-${seconds}-${at}`
  return {
    name: at === undefined ? `SIGSTOP for ${seconds} s` : `SIGSTOP for ${seconds} s at ${at}`,
    async run(world) {
      const survivor = await world.running('survivor')
      const paused = await world.start(name, at === undefined ? {} : { failpoints: `${at}:hit=1:stop` })
      const customers = [await world.openCustomer(200n * USD), await world.openCustomer(5n * USD)]
      const running = Array.from({ length: 8 }, (_, i) =>
        sendChat(paused, customers[i % 2]!, { stream: i < 4, words: 20, gapMs: i < 4 ? 100 : 1_500 }),
      )
      const sentOn = () =>
        customers.reduce((sum, customer) => sum + world.modelServer.tagsOf(customer.customerId).size, 0)
      await eventually('its requests run', () => sentOn() === running.length)
      if (at === undefined) paused.signal('SIGSTOP')
      else await eventually(`it stops at ${at}`, () => paused.isStopped())
      const others = runLoad({
        nodes: () => [survivor],
        customers,
        workers: 2,
        requestsMax: 40,
        random: seededRandom(seconds),
        gapMs: 40,
      })
      return {
        customers,
        problems: [],
        note: 'other nodes go on',
        async settled() {
          await delay(seconds * 1_000)
          paused.signal('SIGCONT')
          const [all] = await Promise.all([Promise.all(running), others])
          const wasReclaimed = seconds > RECLAIMED_AFTER_S
          const mayBeFree = wasReclaimed
            ? { uncharged: (sent: { node: string }) => sent.node === name, writeoffs: true }
            : {}
          return await verdictOn(world, customers, mayBeFree, async () => {
            const again = await sendChat(paused, customers[0]!)
            return [
              ...all
                .filter(sent => sent.ending !== 'whole' && sent.ending !== 'failed' && sent.ending !== 'refused')
                .map(sent => `a request ended ${sent.ending}`),
              ...(again.ending === 'whole' ? [] : [`it answers ${again.ending} ${again.errorCode} after it woke`]),
            ]
          })
        },
      }
    },
  }
}
