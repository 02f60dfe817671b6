import { setTimeout as delay } from 'node:timers/promises'
import type { Sent } from './customer.ts'
import { eventually } from './eventually.ts'
import { runLoad, seededRandom } from './load.ts'
import type { Scenario } from './scenario.ts'
import { sendChat } from './send-chat.ts'
import { verdictOn } from './verdict.ts'
import type { ChaosWorld } from './world.ts'

const USD = 1_000_000_000n
const RESUMES_WITHIN_MS = 5_000

/** SIGKILL to PostgreSQL under load on two nodes, and its recovery. */
export function killPostgres(): Scenario {
  return outage(
    'PostgreSQL kill -9 and restart',
    async ({ postgres }) => {
      await postgres.kill()
    },
    0,
  )
}

/**
 * PostgreSQL is stopped for so long under load on two nodes. Meanwhile requests are refused with 503 and Retry-After, never with 402: it is
 * our outage. Streams that were running end well, meanwhile or after its return.
 */
export function stopPostgres(seconds: number): Scenario {
  return outage(`PostgreSQL stopped for ${seconds} s`, ({ postgres }) => postgres.stop(), seconds)
}

function outage(name: string, begin: (world: ChaosWorld) => Promise<void>, seconds: number): Scenario {
  return {
    name,
    alone: true,
    async run(world) {
      const nodes = await Promise.all(['a', 'b'].map(node => world.running(node)))
      const customers = await Promise.all([200n * USD, 5n * USD].map(usd => world.openCustomer(usd)))
      const enough = new AbortController()
      const load = runLoad({
        nodes: () => nodes,
        customers,
        workers: 6,
        requestsMax: 4_000,
        random: seededRandom(seconds),
        signal: enough.signal,
      })
      const problems: string[] = []
      const outlasting = nodes.map((node, i) =>
        sendChat(node, customers[i % 2]!, { stream: true, words: 20, gapMs: (1_000 * (seconds + 3)) / 20 }),
      )
      const [beganMs, endedMs, resumedMs] = await (async () => {
        try {
          await delay(1_000)
          await begin(world)
          const began = performance.now()
          await delay(seconds * 1_000)
          await world.postgres.start()
          const ended = performance.now()
          const resumed = await Promise.all(
            nodes.map(node =>
              eventually(
                `${node.name} serves again`,
                async () => (await sendChat(node, customers[0]!)).ending === 'whole',
              ),
            ),
          )
          return [began, ended, Math.max(...resumed)] as const
        } finally {
          enough.abort()
          await load
        }
      })()
      if (resumedMs > RESUMES_WITHIN_MS) problems.push(`service resumed ${Math.round(resumedMs)} ms after its return`)
      for (const sent of await Promise.all(outlasting)) {
        if (sent.ending !== 'whole')
          problems.push(`a stream that outlasts the outage ended ${sent.ending} ${sent.errorCode}`)
      }
      const away = (await load).filter(sent => sent.endedAtMs > beganMs && sent.endedAtMs < endedMs)
      problems.push(...away.flatMap(judgeRefusal))
      const refused = away.filter(({ ending }) => ending === 'refused').length
      return {
        customers,
        problems,
        note: `${refused} refused meanwhile, resumed after ${Math.round(resumedMs)} ms`,
        settled: () => verdictOn(world, customers),
      }
    },
  }
}

function judgeRefusal({ ending, errorCode, retryAfterS }: Sent): string[] {
  if (ending === 'failed') return [`a stream ended with ${errorCode}, although its charge fits into the journal`]
  if (ending !== 'refused') return []
  if (errorCode !== 'database_unavailable') return [`refused with ${errorCode} in an outage of ours`]
  return retryAfterS === null ? [`${errorCode} without Retry-After`] : []
}
