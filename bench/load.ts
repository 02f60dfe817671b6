import autocannon from 'autocannon'
import { percentile } from './percentile.ts'
import { answerJobs } from './process.ts'
import { readCpuMicros } from './process-usage.ts'

export type LoadJob = {
  url: string
  /** One set: of every request. Several: each request takes the next, each connection its own part of them. */
  headers: Record<string, string>[]
  body: string
  connections: number
  /** How many are sent. A round ends with its last answer: one that ends by the clock cuts off what is under way, and no client does that. */
  requests: number
  /** The process whose CPU time is watched; null when nobody's is. */
  pid: number | null
}

/** What one round of whole answers came to. Every request is sent, and then either answered, failed or cut at the end. */
export type LoadResult = {
  rps: number
  p50Ms: number
  p99Ms: number
  sent: number
  ok: number
  failed: number
  /** Share of one core the watched process used, 0 to 1; null when unknown. */
  cpuShare: number | null
}

answerJobs<LoadJob, LoadResult>(async job => {
  // autocannon's own histogram keeps whole milliseconds, too coarse for answers that take a tenth of one.
  const latenciesMs: number[] = []
  const cpuBefore = job.pid === null ? null : readCpuMicros(job.pid)
  const startedMs = performance.now()
  let lastAnswerMs = startedMs
  let connection = 0
  const run = autocannon({
    url: job.url,
    method: 'POST',
    setupClient(client) {
      const own = job.headers.filter((_, i) => i % job.connections === connection % job.headers.length)
      connection++
      client.setRequests(
        own.map(headers => ({
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: job.body,
        })),
      )
    },
    connections: job.connections,
    amount: job.requests,
    sampleInt: 50,
  })
  run.on('response', (_client: unknown, _status: number, _bytes: number, latencyMs: number) => {
    latenciesMs.push(latencyMs)
    lastAnswerMs = performance.now()
  })
  const result = await run
  const cpuAfter = job.pid === null ? null : readCpuMicros(job.pid)
  const elapsedMs = lastAnswerMs - startedMs
  const sorted = Float64Array.from(latenciesMs).sort()
  return {
    rps: (result['2xx'] / elapsedMs) * 1000,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    sent: result.requests.sent,
    ok: result['2xx'],
    failed: result.non2xx + result.errors,
    cpuShare: cpuBefore === null || cpuAfter === null ? null : (cpuAfter - cpuBefore) / 1000 / elapsedMs,
  }
})
