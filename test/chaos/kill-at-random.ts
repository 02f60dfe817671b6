import { setTimeout as delay } from 'node:timers/promises'
import type { GatewayProcess } from './gateway-process.ts'
import { runLoad, seededRandom } from './load.ts'
import type { Scenario } from './scenario.ts'
import { verdictOn } from './verdict.ts'

const USD = 1_000_000_000n

/** kill -9 of one node or the other, again and again at moments nobody chose, under load; each starts again on its data directory at once. */
export function killAtRandom({ kills, workers, seed }: { kills: number; workers: number; seed: number }): Scenario {
  return {
    name: `kill -9 x ${kills} at random, seed ${seed}`,
    async run(world) {
      const random = seededRandom(seed)
      const nodes = await Promise.all(['a', 'b'].map(name => world.running(name)))
      const customers = await Promise.all([
        world.openCustomer(200n * USD),
        world.openCustomer(200n * USD),
        world.openCustomer(5n * USD),
        world.openCustomer(USD / 10n),
        world.openCustomer(200n * USD, { requestsPerDay: 50 }),
        world.openCustomer(200n * USD, { dailySpendCapNanos: USD / 20n }),
      ])
      const enough = new AbortController()
      const load = runLoad({
        nodes: () => nodes,
        customers,
        workers,
        requestsMax: 4_000,
        random,
        signal: enough.signal,
      })
      try {
        for (let kill = 0; kill < kills; kill++) {
          await delay(200 + random() * 800)
          const index = random() < 0.5 ? 0 : 1
          nodes[index] = await restarted(nodes[index]!)
        }
      } finally {
        enough.abort()
      }
      const sent = await load
      const whole = sent.filter(({ ending }) => ending === 'whole').length
      return {
        customers,
        problems: whole === 0 ? ['nothing was served'] : [],
        note: `${whole} of ${sent.length} answered whole`,
        settled: () => verdictOn(world, customers),
      }

      async function restarted(node: GatewayProcess): Promise<GatewayProcess> {
        node.signal('SIGKILL')
        await node.exited
        return await world.start(node.name)
      }
    },
  }
}
