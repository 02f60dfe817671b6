import { seededRandom } from '../src/wire/demo-model/seeded-random.ts'
import { Client, requestText } from './client.ts'
import type { LoadResult } from './load.ts'
import { percentile } from './percentile.ts'
import { answerJobs } from './process.ts'
import { startCpuWatch } from './process-usage.ts'
import { createTally } from './tally.ts'

export type PacedJob = {
  url: string
  headers: Record<string, string>
  body: string
  ratePerS: number
  /** Additional requests per second, each on a connection of its own. Default 0. */
  freshPerS?: number
  seconds: number
  /** The process whose CPU time is measured; null for none. */
  pid: number | null
}

export type PacedResult = LoadResult & {
  /** Requests not sent because too many were in flight: the rate was not held. */
  skipped: number
  meanMs: number
  /** The p99 of requests on connections of their own, from the connect to the answer; 0 without any. */
  freshP99Ms: number
}

/**
 * Sends requests at a fixed rate, whether or not earlier ones were answered: independent clients with exponential gaps. One second of warm-up
 * precedes the measurement.
 */
answerJobs<PacedJob, PacedResult>(async job => {
  const client = new Client(job.url)
  const request = requestText(job.url, job.headers, job.body)
  const latenciesMs: number[] = []
  const outcome = { ...createTally(), skipped: 0 }
  const answered = Promise.withResolvers<void>()
  let sending = true
  let isWarmingUp = true

  const send = () => {
    if (outcome.sent - outcome.ok - outcome.failed >= inFlightMax) {
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

  const freshMs: number[] = []
  const sendFresh = () => {
    const own = new Client(job.url)
    const startMs = performance.now()
    const isCounted = !isWarmingUp
    outcome.sent++
    own.send(request, {
      onEnd(status) {
        if (status === 200) outcome.ok++
        else outcome.failed++
        if (isCounted) freshMs.push(performance.now() - startMs)
        own.close()
        if (!sending && outcome.ok + outcome.failed === outcome.sent) answered.resolve()
      },
    })
  }
  const { freshPerS = 0 } = job
  const sendingFresh = freshPerS > 0 ? setInterval(sendFresh, 1000 / freshPerS) : undefined

  // The same gaps in every round, so that rounds are comparable.
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
  const cpuMicrosUsed = startCpuWatch(job.pid)
  const startedMs = performance.now()
  await sendFor(job.seconds)
  sending = false
  clearInterval(sendingFresh)
  const giveUp = setTimeout(answered.resolve, drainMsMax)
  if (outcome.ok + outcome.failed < outcome.sent) await answered.promise
  clearTimeout(giveUp)
  const elapsedMs = performance.now() - startedMs
  const cpuMicros = cpuMicrosUsed()
  client.close()

  const sorted = Float64Array.from(latenciesMs).sort()
  return {
    rps: ((outcome.ok - okBefore) / elapsedMs) * 1000,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    meanMs: sorted.reduce((sum, ms) => sum + ms, 0) / Math.max(1, sorted.length),
    sent: outcome.sent,
    ok: outcome.ok,
    failed: outcome.sent - outcome.ok,
    skipped: outcome.skipped,
    freshP99Ms: percentile(Float64Array.from(freshMs).sort(), 0.99),
    cpuShare: cpuMicros === null ? null : cpuMicros / 1000 / elapsedMs,
  }
})

// The load process opens its connections and compiles its code in this time. Without it, p99 was 70 ms even without a gateway.
const WARM_UP_SECONDS = 1
// A subject with this many requests in flight does not catch up, and more requests would overload it.
const inFlightMax = 1000
const drainMsMax = 15_000
