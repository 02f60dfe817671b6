import { setTimeout as delay } from 'node:timers/promises'
import { seededRandom } from '../../src/wire/demo-model/seeded-random.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { runLoad } from './load.ts'
import type { Scenario } from './scenario.ts'
import { verdictOn } from './verdict.ts'

/** Restarts three gateways one after the other, as for a new version: SIGTERM, drain, start. No answer may break off. */
export function restartRolling(): Scenario {
  return {
    name: 'rolling restart',
    async run(world) {
      const nodes = await Promise.all(['a', 'b', 'c'].map(name => world.running(name)))
      const customers = await world.openTwoCustomers()
      const problems: string[] = []
      // As a load balancer does, stop sending requests to a node shortly before its SIGTERM.
      const serving = new Set<GatewayProcess>(nodes)
      const enough = new AbortController()
      const load = runLoad({
        nodes: () => [...serving],
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
          serving.delete(node)
          await delay(200)
          node.signal('SIGTERM')
          const { code, signal } = await node.exited
          if (code !== 0) problems.push(`${node.name} exited with ${code ?? signal}`)
          serving.add(await world.start(node.name))
        }
      } finally {
        enough.abort()
      }
      const sent = await load
      for (const { ending, errorCode, node } of sent) {
        if (ending !== 'complete' && ending !== 'left')
          problems.push(`a request at ${node} ended ${ending} ${errorCode ?? ''}`)
      }
      return {
        customers,
        problems,
        note: `${sent.length} answered`,
        settled: () => verdictOn(world, customers),
      }
    },
  }
}
