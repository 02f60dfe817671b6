import { setTimeout as delay } from 'node:timers/promises'
import type { Sent } from './customer.ts'
import { loadTwoNodes } from './load-two-nodes.ts'
import type { Scenario } from './scenario.ts'
import { sendRequest } from './send-request.ts'
import { verdictOn } from './verdict.ts'
import type { ChaosWorld } from './world.ts'

const RESUMES_WITHIN_MS = 5_000

/** Kills PostgreSQL with SIGKILL under load on two nodes, and restarts it. */
export function killPostgres(): Scenario {
  return outage('PostgreSQL kill -9 and restart', ({ postgres }) => postgres.kill(), 0)
}

/**
 * Stops PostgreSQL for a time under load on two nodes. During the outage, requests are refused with 503 and Retry-After, never with 402,
 * since the client is not at fault. Running streams end normally.
 */
export function stopPostgres(seconds: number): Scenario {
  return outage(`PostgreSQL stopped for ${seconds} s`, ({ postgres }) => postgres.stop(), seconds)
}

function outage(name: string, begin: (world: ChaosWorld) => Promise<void>, seconds: number): Scenario {
  return {
    name,
    alone: true,
    async run(world) {
      const { nodes, customers, untilServing, stop } = await loadTwoNodes(world, { requestsMax: 4_000, seed: seconds })
      const problems: string[] = []
      const longStreams = nodes.map((node, i) =>
        sendRequest(node, customers[i % 2]!, { stream: true, words: 20, gapMs: (1_000 * (seconds + 3)) / 20 }),
      )
      const [beganMs, endedMs, resumedMs] = await (async () => {
        try {
          await delay(1_000)
          await begin(world)
          const began = performance.now()
          await delay(seconds * 1_000)
          await world.postgres.start()
          const ended = performance.now()
          return [began, ended, await untilServing()] as const
        } finally {
          await stop()
        }
      })()
      if (resumedMs > RESUMES_WITHIN_MS)
        problems.push(`service resumed ${Math.round(resumedMs)} ms after the restart of PostgreSQL`)
      for (const sent of await Promise.all(longStreams)) {
        if (sent.ending !== 'complete')
          problems.push(`a stream running during the outage ended ${sent.ending} ${sent.errorCode}`)
      }
      const duringOutage = (await stop()).filter(sent => sent.endedAtMs > beganMs && sent.endedAtMs < endedMs)
      problems.push(...duringOutage.flatMap(judgeRefusal))
      const refused = duringOutage.filter(({ ending }) => ending === 'refused').length
      return {
        customers,
        problems,
        note: `${refused} refused in the outage, resumed after ${Math.round(resumedMs)} ms`,
        settled: () => verdictOn(world, customers),
      }
    },
  }
}

function judgeRefusal({ ending, errorCode, retryAfterS }: Sent): string[] {
  if (ending === 'failed') return [`a stream ended with ${errorCode} although the journal has room for its charge`]
  if (ending !== 'refused') return []
  if (errorCode !== 'database_unavailable') return [`refused with ${errorCode} instead of database_unavailable`]
  return retryAfterS === null ? [`${errorCode} without Retry-After`] : []
}
