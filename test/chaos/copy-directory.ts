import { cpSync, rmSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { eventually } from './eventually.ts'
import type { Scenario } from './scenario.ts'
import { sendRequest } from './send-request.ts'
import { verdictOn } from './verdict.ts'

/**
 * Copies the data directory of a node while its requests run, and starts another node on the copy. The original keeps
 * its leases, its requests are charged as usual, and the copy serves requests of its own.
 */
export function copyDirectory(): Scenario {
  return {
    name: 'the data directory is copied',
    async run(world) {
      const original = await world.running('original')
      const customers = await world.openTwoCustomers()
      const running = Array.from({ length: 8 }, (_, i) =>
        sendRequest(original, customers[i % 2]!, { stream: i < 4, words: 30, gapMs: i < 4 ? 100 : 3_000 }),
      )
      const sentOn = () => customers.reduce((sum, { customerId }) => sum + world.modelServer.tagsOf(customerId).size, 0)
      await eventually('its requests reach the model server', () => sentOn() === running.length)
      const nodesBefore = await liveNodes(world.pool)
      const copied = join(dirname(dirname(original.dataDir)), 'copied', 'data')
      rmSync(copied, { recursive: true, force: true })
      cpSync(original.dataDir, copied, { recursive: true })
      const copy = await world.running('copied')
      const ownRequest = await sendRequest(copy, customers[0]!)
      await eventually('the copy notices its original', () => copy.log().includes('is a copy of the one of a running'))
      const nodes = await liveNodes(world.pool)
      const declaredDead = nodesBefore.filter(nodeId => !nodes.includes(nodeId))
      const all = await Promise.all(running)
      // Idle leases would be kept until the end of their minute.
      for (const node of [original, copy]) node.signal('SIGTERM')
      await Promise.all([original.exited, copy.exited])
      return {
        customers,
        problems: [
          ...declaredDead.map(nodeId => `node ${nodeId} was declared dead`),
          ...[...all, ownRequest].flatMap(({ ending }) => (ending === 'complete' ? [] : [`a request ended ${ending}`])),
        ],
        note: 'both served',
        settled: () => verdictOn(world, customers),
      }
    },
  }
}

async function liveNodes(pool: { query<Row>(statement: string): Promise<{ rows: Row[] }> }): Promise<string[]> {
  const { rows } = await pool.query<{ node_id: string }>("SELECT node_id FROM node WHERE state = 'alive'")
  return rows.map(({ node_id: nodeId }) => nodeId)
}
