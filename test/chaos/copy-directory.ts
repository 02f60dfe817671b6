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
      const nodeId = await newestNode(world.pool)
      const customers = await world.openTwoCustomers()
      const running = Array.from({ length: 8 }, (_, i) =>
        sendRequest(original, customers[i % 2]!, { stream: i < 4, words: 30, gapMs: i < 4 ? 100 : 3_000 }),
      )
      const sentOn = () => customers.reduce((sum, { customerId }) => sum + world.modelServer.tagsOf(customerId).size, 0)
      await eventually('its requests reach the model server', () => sentOn() === running.length)
      const copied = join(dirname(dirname(original.dataDir)), 'copied', 'data')
      rmSync(copied, { recursive: true, force: true })
      cpSync(original.dataDir, copied, { recursive: true })
      const copy = await world.running('copied')
      const ownRequest = await sendRequest(copy, customers[0]!)
      await eventually('the copy notices its original', () => copy.log().includes('is a copy of the one of a running'))
      const alive = await world.pool.query("SELECT FROM node WHERE node_id = $1 AND state = 'alive'", [nodeId])
      const all = await Promise.all(running)
      // Idle leases would be kept until the end of their minute.
      for (const node of [original, copy]) node.signal('SIGTERM')
      await Promise.all([original.exited, copy.exited])
      return {
        customers,
        problems: [
          ...(alive.rowCount === 1 ? [] : ['the original was declared dead']),
          ...[...all, ownRequest].flatMap(({ ending }) => (ending === 'complete' ? [] : [`a request ended ${ending}`])),
        ],
        note: 'both served',
        settled: () => verdictOn(world, customers),
      }
    },
  }
}

/** Nodes that earlier scenarios killed may be declared dead meanwhile. */
async function newestNode(pool: { query<Row>(statement: string): Promise<{ rows: Row[] }> }): Promise<string> {
  const { rows } = await pool.query<{ node_id: string }>('SELECT node_id FROM node ORDER BY started_at DESC LIMIT 1')
  return rows[0]!.node_id
}
