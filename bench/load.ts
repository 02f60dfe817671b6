import { Client, requestText } from './client.ts'
import { percentile } from './percentile.ts'
import { answerJobs } from './process.ts'
import { readCpuMicros } from './process-usage.ts'

export type LoadJob = {
  url: string
  /** One set: of every request. Several: each request takes the next. */
  headers: Record<string, string>[]
  body: string
  connections: number
  /** How many are sent. A round ends with its last answer: one that ends by the clock cuts off what is under way, and no client does that. */
  requests: number
  /** The process whose CPU time is watched; null when nobody's is. */
  pid: number | null
}

/** What one round of whole answers came to. Every request is sent, and then either answered or failed. */
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

/** A closed loop on each connection: the next request goes out when the answer to the last one is in. */
answerJobs<LoadJob, LoadResult>(async job => {
  const client = new Client(job.url)
  await client.open(job.connections)
  const requests = job.headers.map(headers => requestText(job.url, headers, job.body))
  const latenciesMs: number[] = []
  const outcome = { sent: 0, ok: 0, failed: 0 }
  const answered = Promise.withResolvers<void>()

  const cpuBefore = job.pid === null ? null : readCpuMicros(job.pid)
  const startedMs = performance.now()
  let lastAnswerMs = startedMs
  const send = () => {
    const sentMs = performance.now()
    client.send(requests[outcome.sent++ % requests.length]!, {
      onEnd(status) {
        lastAnswerMs = performance.now()
        if (status === 200) {
          outcome.ok++
          latenciesMs.push(lastAnswerMs - sentMs)
        } else outcome.failed++
        if (outcome.sent < job.requests) send()
        else if (outcome.ok + outcome.failed === job.requests) answered.resolve()
      },
    })
  }
  while (outcome.sent < Math.min(job.connections, job.requests)) send()
  await answered.promise
  const cpuAfter = job.pid === null ? null : readCpuMicros(job.pid)
  client.close()

  const elapsedMs = lastAnswerMs - startedMs
  const sorted = Float64Array.from(latenciesMs).sort()
  return {
    rps: (outcome.ok / elapsedMs) * 1000,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    ...outcome,
    cpuShare: cpuBefore === null || cpuAfter === null ? null : (cpuAfter - cpuBefore) / 1000 / elapsedMs,
  }
})
