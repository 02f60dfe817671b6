import { Client, requestText } from './client.ts'
import { percentile } from './percentile.ts'
import { answerJobs } from './process.ts'
import { startCpuWatch } from './process-usage.ts'
import { createTally, type Tally } from './tally.ts'

export type LoadJob = {
  url: string
  /** Header sets; requests use them in turn, or in this order of indexes. */
  headers: Record<string, string>[]
  order?: number[]
  body: string
  connections: number
  /** Number of requests. The round ends with the last answer; a fixed duration would cut off requests in flight, which no client does. */
  requests: number
  /** The process whose CPU time is measured; null for none. */
  pid: number | null
}

/** The result of one round. Every request is either answered or failed. */
export type LoadResult = Tally & {
  rps: number
  p50Ms: number
  p99Ms: number
  /** Share of one core that the measured process used, 0 to 1; null when unknown. */
  cpuShare: number | null
}

/** A closed loop on each connection: it sends the next request when the answer to the previous one arrives. */
answerJobs<LoadJob, LoadResult>(async job => {
  const client = new Client(job.url)
  await client.open(job.connections)
  const requests = job.headers.map(headers => requestText(job.url, headers, job.body))
  const order = job.order ?? requests.map((_, index) => index)
  const latenciesMs: number[] = []
  const outcome = createTally()
  const answered = Promise.withResolvers<void>()

  const cpuMicrosUsed = startCpuWatch(job.pid)
  const startedMs = performance.now()
  let lastAnswerMs = startedMs
  const send = () => {
    const sentMs = performance.now()
    client.send(requests[order[outcome.sent++ % order.length]!]!, {
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
  const cpuMicros = cpuMicrosUsed()
  client.close()

  const elapsedMs = lastAnswerMs - startedMs
  const sorted = Float64Array.from(latenciesMs).sort()
  return {
    rps: (outcome.ok / elapsedMs) * 1000,
    p50Ms: percentile(sorted, 0.5),
    p99Ms: percentile(sorted, 0.99),
    ...outcome,
    cpuShare: cpuMicros === null ? null : cpuMicros / 1000 / elapsedMs,
  }
})
