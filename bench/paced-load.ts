import { seededRandom } from '../src/demo/seeded-random.ts'
import { Client, requestText } from './client.ts'
import type { LoadResult } from './load.ts'
import { percentile } from './percentile.ts'
import { answerJobs } from './process.ts'
import { readCpuMicros } from './process-usage.ts'

export type PacedJob = {
  url: string
  headers: Record<string, string>
  body: string
  ratePerS: number
  seconds: number
  /** The process whose CPU time is watched; null when nobody's is. */
  pid: number | null
}

export type PacedResult = LoadResult & {
  /** Not sent, because too many were under way: the rate was not held. */
  skipped: number
}

/**
 * Requests at a rate, whatever becomes of those before: independent clients, whose gaps are exponential. A second of them goes before what is
 * measured.
 */
answerJobs<PacedJob, PacedResult>(async job => {
  const client = new Client(job.url)
  const request = requestText(job.url, job.headers, job.body)
  const latenciesMs: number[] = []
  const outcome = { sent: 0, ok: 0, failed: 0, skipped: 0 }
  const answered = Promise.withResolvers<void>()
  let sending = true
  let isWarmingUp = true

  const send = () => {
    if (outcome.sent - outcome.ok - outcome.failed >= underWayMax) {
      if (!isWarmingUp) outcome.skipped++
      return
    }
    outcome.sent++
    const sentMs = performance.now()
    const isCounted = !isWarmingUp
    client.send(request, {
      onEnd(status) {
        if (status === 200) {
          outcome.ok++
          if (isCounted) latenciesMs.push(performance.now() - sentMs)
        } else outcome.failed++
        if (!sending && outcome.ok + outcome.failed === outcome.sent) answered.resolve()
      },
    })
  }

  // The same gaps in each round, so that rounds differ by what they measure.
  const random = seededRandom(1)
  const gapMs = () => (-Math.log(1 - random()) / job.ratePerS) * 1000
  const sendFor = async (seconds: number) => {
    const startMs = performance.now()
    const untilMs = startMs + seconds * 1000
    for (let dueMs = startMs + gapMs(); dueMs < untilMs; ) {
      for (const nowMs = performance.now(); dueMs <= nowMs && dueMs < untilMs; dueMs += gapMs()) send()
      await new Promise(resolve => setTimeout(resolve, 1))
    }
  }
  await sendFor(WARM_UP_SECONDS)
  isWarmingUp = false
  const okBefore = outcome.ok
  const cpuBefore = job.pid === null ? null : readCpuMicros(job.pid)
  const startedMs = performance.now()
  await sendFor(job.seconds)
  sending = false
  const giveUp = setTimeout(answered.resolve, drainMsMax)
  if (outcome.ok + outcome.failed < outcome.sent) await answered.promise
  clearTimeout(giveUp)
  const elapsedMs = performance.now() - startedMs
  const cpuAfter = job.pid === null ? null : readCpuMicros(job.pid)
  client.close()

  const sorted = Float64Array.from(latenciesMs).sort()
  return {
    rps: ((outcome.ok - okBefore) / elapsedMs) * 1000,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    sent: outcome.sent,
    ok: outcome.ok,
    failed: outcome.sent - outcome.ok,
    skipped: outcome.skipped,
    cpuShare: cpuBefore === null || cpuAfter === null ? null : (cpuAfter - cpuBefore) / 1000 / elapsedMs,
  }
})

// In it this process opens its connections and compiles its code: with nothing between the two ends, p99 was 70 ms.
const WARM_UP_SECONDS = 1
// Someone who is behind by this much does not catch up, and is drowned by the rest.
const underWayMax = 1000
const drainMsMax = 15_000
