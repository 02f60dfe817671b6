import { setTimeout as delay } from 'node:timers/promises'
import type { GatewayProcess } from './gateway-process.ts'
import { runLoad, seededRandom } from './load.ts'
import type { Scenario } from './scenario.ts'
import { verdictOn } from './verdict.ts'

const USD = 1_000_000_000n

/** Three gateways are replaced one after the other, as at a new version: SIGTERM, drained, started again. No answer breaks off. */
export function restartRolling(): Scenario {
  return {
    name: 'rolling restart',
    async run(world) {
      const nodes = await Promise.all(['a', 'b', 'c'].map(name => world.running(name)))
      const customers = await Promise.all([200n * USD, 5n * USD].map(usd => world.openCustomer(usd)))
      const problems: string[] = []
      // As a load balancer: a node that is about to stop gets nothing new, a moment before it is told.
      const taking = new Set<GatewayProcess>(nodes)
      const enough = new AbortController()
      const load = runLoad({
        nodes: () => [...taking],
        customers,
        workers: 8,
        requestsMax: 4_000,
        random: seededRandom(3),
        words: 15,
        gapMs: 20,
        signal: enough.signal,
      })
      try {
        for (const node of nodes) {
          taking.delete(node)
          await delay(200)
          node.signal('SIGTERM')
          const { code, signal } = await node.exited
          if (code !== 0) problems.push(`${node.name} ended with ${code ?? signal}`)
          taking.add(await world.start(node.name))
        }
      } finally {
        enough.abort()
      }
      const sent = await load
      for (const { ending, errorCode, node } of sent) {
        if (ending !== 'whole') problems.push(`a request at ${node} ended ${ending} ${errorCode ?? ''}`)
      }
      return {
        customers,
        problems,
        note: `${sent.length} answered whole`,
        settled: () => verdictOn(world, customers),
      }
    },
  }
}
