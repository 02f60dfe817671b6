import { setTimeout as delay } from 'node:timers/promises'
import { USD } from './customer.ts'
import { eventually } from './eventually.ts'
import { loadTwoNodes } from './load-two-nodes.ts'
import type { Standby } from './postgres.ts'
import type { Scenario } from './scenario.ts'
import { verdictOn } from './verdict.ts'
import type { ChaosWorld } from './world.ts'

/** PostgreSQL settles nothing for this long after a failover: longer than an answer waits for its charge. */
const SLOW_S = 12
const TAIL_MS = 3_000
/**
 * Nodes keep the charges of at least ten seconds, as docs/money.md says. On a busy machine a tail may become longer, and is not measured from its
 * first to its last commit.
 */
const TAIL_MAX_MS = 8_000

/**
 * Fails over, under load on two nodes, to a standby that lacks the last transactions. The standby takes heartbeats and holds at
 * once, but is slow to settle. The nodes charge every answer of the lost tail again.
 */
export function loseTail({ times, seed }: { times: number; seed: number }): Scenario {
  return {
    name: `PostgreSQL loses its tail, ${times} times, seed ${seed}`,
    alone: true,
    async run(world) {
      const { nodes, customers, untilServing, stop } = await loadTwoNodes(world, {
        requestsMax: 100_000,
        seed,
        // Credit that a standby restores may be spent again before the lost charges are made: what then exceeds it is written off.
        secondNanos: 200n * USD,
      })
      const charges = async () => {
        const ids = customers.map(({ customerId }) => customerId)
        const { rows } = await world.pool.query<{ count: number }>(
          'SELECT count(*)::integer AS count FROM usage_event WHERE customer_id = ANY ($1) AND cost_nanos > 0',
          [ids],
        )
        return rows[0]!.count
      }
      let lost = 0
      try {
        for (let time = 0; time < times; time++) {
          let standby: Standby
          let tailMs: number
          do {
            await untilServing()
            standby = await world.postgres.copy()
            const copiedMs = performance.now()
            await untilServing()
            await delay(TAIL_MS)
            tailMs = performance.now() - copiedMs
          } while (tailMs > TAIL_MAX_MS)
          const before = await charges()
          for (const { name } of nodes) world.proxy(name).cut()
          await standby.failOver()
          lost += before - (await charges())
          const slow = world.pool.query(`
            BEGIN; LOCK TABLE usage_event IN SHARE MODE; SELECT pg_sleep(${SLOW_S}); COMMIT`)
          await eventually('the lock is held', () => isLocked(world))
          for (const { name } of nodes) world.proxy(name).pass()
          await slow
        }
        await untilServing()
      } finally {
        await stop()
      }
      return {
        customers,
        problems: lost === 0 ? ['the standbys lacked no charge'] : [],
        note: `the standbys lacked ${lost} charges`,
        settled: () => verdictOn(world, customers),
      }
    },
  }
}

async function isLocked({ pool }: ChaosWorld): Promise<boolean> {
  const { rows } = await pool.query(
    "SELECT FROM pg_locks WHERE relation = 'usage_event'::regclass AND mode = 'ShareLock' AND granted",
  )
  return rows.length > 0
}
