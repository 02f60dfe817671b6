import { setTimeout as delay } from 'node:timers/promises'
import { seededRandom } from '../../src/wire/demo-model/seeded-random.ts'
import { USD } from './customer.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { runLoad } from './load.ts'
import type { Scenario } from './scenario.ts'
import { verdictOn } from './verdict.ts'

export interface RandomKills {
  readonly kills: number
  readonly workers: number
  readonly seed: number
  readonly settlement?: 'journal' | 'commit'
}

/** Kills one of two nodes at random moments under load. A killed node restarts at once on its data directory. */
export function killAtRandom({ kills, workers, seed, settlement = 'journal' }: RandomKills): Scenario {
  const mode = settlement === 'journal' ? '' : `, settlement ${settlement}`
  return {
    name: `kill -9 at random, ${kills} times${mode}, seed ${seed}`,
    async run(world) {
      const random = seededRandom(seed)
      const names = settlement === 'journal' ? ['a', 'b'] : [`a ${settlement}`, `b ${settlement}`]
      const nodes = await Promise.all(names.map(name => world.running(name, { settlement })))
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
      const complete = sent.filter(({ ending }) => ending === 'complete').length
      const broken = sent.filter(({ ending }) => ending === 'cut' || ending === 'unanswered').length
      return {
        customers,
        problems: complete === 0 ? ['no request was answered'] : [],
        note: `${complete} of ${sent.length} answered, ${broken} broken off`,
        settled: () => verdictOn(world, customers),
      }

      async function restarted(node: GatewayProcess): Promise<GatewayProcess> {
        node.signal('SIGKILL')
        await node.exited
        return await world.start(node.name, { settlement })
      }
    },
  }
}
