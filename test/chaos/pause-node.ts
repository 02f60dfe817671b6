import { setTimeout as delay } from 'node:timers/promises'
import type { FailpointName } from '../../src/base/runtime/failpoint.ts'
import { seededRandom } from '../../src/wire/demo-model/seeded-random.ts'
import { eventually } from './eventually.ts'
import { runLoad } from './load.ts'
import type { Scenario } from './scenario.ts'
import { sendRequest } from './send-request.ts'
import { verdictOn } from './verdict.ts'

/** Other nodes reclaim the leases after 65 s without a heartbeat. */
const RECLAIMED_AFTER_S = 65

/**
 * Pauses a node with SIGSTOP during its requests, or at the failpoint `at`, and resumes it with SIGCONT after `seconds`. Another node serves the
 * same customers. Before 65 s the paused node still owns its leases and charges its answers; after that its answers may be free.
 */
export function pauseNode(seconds: number, at?: FailpointName): Scenario {
  const name = at === undefined ? `paused-${seconds}` : `paused-${seconds}-${at}`
  return {
    name: at === undefined ? `SIGSTOP for ${seconds} s` : `SIGSTOP for ${seconds} s at ${at}`,
    async run(world) {
      const survivor = await world.running('survivor')
      const paused = await world.start(name, at === undefined ? {} : { failpoints: `${at}:hit=1:stop` })
      const customers = await world.openTwoCustomers()
      const running = Array.from({ length: 8 }, (_, i) =>
        sendRequest(paused, customers[i % 2]!, { stream: i < 4, words: 20, gapMs: i < 4 ? 100 : 1_500 }),
      )
      const sentOn = () =>
        customers.reduce((sum, customer) => sum + world.modelServer.tagsOf(customer.customerId).size, 0)
      await eventually('its requests reach the model server', () => sentOn() === running.length)
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
        note: 'other nodes served',
        async settled() {
          await delay(seconds * 1_000)
          paused.signal('SIGCONT')
          const [all] = await Promise.all([Promise.all(running), others])
          const wasReclaimed = seconds > RECLAIMED_AFTER_S
          const mayBeFree = wasReclaimed
            ? { uncharged: (sent: { node: string }) => sent.node === name, writeoffs: true }
            : {}
          return await verdictOn(world, customers, mayBeFree, async () => {
            const again = await sendRequest(paused, customers[0]!)
            return [
              ...all
                .filter(sent => sent.ending !== 'complete' && sent.ending !== 'failed' && sent.ending !== 'refused')
                .map(sent => `a request ended ${sent.ending}`),
              ...(again.ending === 'complete'
                ? []
                : [`after the pause a request ended ${again.ending} ${again.errorCode}`]),
            ]
          })
        },
      }
    },
  }
}
