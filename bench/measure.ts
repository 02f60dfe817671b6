import type { LoadResult } from './load.ts'
import { loadOnce } from './load-once.ts'
import { type ManyCustomers, measureManyCustomers } from './many-customers.ts'
import type { PacedJob, PacedResult } from './paced-load.ts'
import { percentile } from './percentile.ts'
import { printProgress } from './print-progress.ts'
import { ask, type Running } from './process.ts'
import { connectionCounts, type Measured } from './report.ts'
import { slowStreamBody, streamBody, wholeBody } from './request-bodies.ts'
import { rotate } from './rotate.ts'
import type { Figure } from './spread.ts'
import { type Calm, measureCalmly } from './stolen-time.ts'
import type { StreamJob, StreamResult } from './stream-load.ts'
import type { Subject, SubjectName } from './subjects/subject.ts'
import { addToTally, createTally, type Tally } from './tally.ts'

/** In the order in which they run. */
export const workloads = ['many-streams', 'whole', 'half-load', 'many-customers', 'streams'] as const
export type Workload = (typeof workloads)[number]

export type MeasurePlan = {
  subjects: SubjectName[]
  workloads: ReadonlySet<Workload>
  /** The subjects of the stream and half-load workloads. */
  streamSubjects: SubjectName[]
  rounds: number
  secondsPerRound: number
  warmUpRequests: number
  streamRounds: number
  streamMeasureMs: number
}

/** The processes that run load.ts, paced-load.ts and stream-load.ts. */
export type LoadWorkers = { load: Running; pacedLoad: Running; streamLoad: Running }

/**
 * Warms up every subject and runs the workloads of the plan. The returned findings are empty. `tallies` counts the requests per subject, to
 * compare with its books.
 */
export async function measure(
  plan: MeasurePlan,
  subjects: ReadonlyMap<SubjectName, Subject>,
  workers: LoadWorkers,
): Promise<{ measured: Measured; tallies: Map<SubjectName, Tally> }> {
  const measured: Measured = {
    whole: new Map(),
    streams: new Map(),
    manyStreams: new Map(),
    halfLoad: new Map(),
    manyCustomers: null,
    findings: [],
  }
  const tallies = new Map<SubjectName, Tally>(plan.subjects.map(name => [name, createTally()]))
  /** The latest requests per second by subject and number of connections. */
  const paces = new Map<string, number>()
  const streamsAreMeasured = plan.workloads.has('many-streams') || plan.workloads.has('streams')

  for (const name of plan.subjects) await warmUp(name)
  // First, because garbage of other workloads would be in the idle memory, and streams could reuse it.
  if (plan.workloads.has('many-streams'))
    await withIdleDatabase(() => measureStreams(manyStreams, measured.manyStreams))
  if (plan.workloads.has('whole')) await measureWhole()
  if (plan.workloads.has('half-load')) await withIdleDatabase(measureHalfLoad)
  if (plan.workloads.has('many-customers')) measured.manyCustomers = await measureCustomers()
  if (plan.workloads.has('streams')) await withIdleDatabase(() => measureStreams(fastStreams, measured.streams))
  return { measured, tallies }

  /** Runs a measurement of delays, in which no process may wait for a database on its core. */
  async function withIdleDatabase(work: () => Promise<void>): Promise<void> {
    for (const subject of subjects.values()) subject.setDatabasePriority?.('idle')
    await work()
    for (const subject of subjects.values()) subject.setDatabasePriority?.('normal')
  }

  /** Sends the same number of requests and streams to each subject, so that its code is compiled. The first rounds measure the pace of each cell. */
  async function warmUp(name: SubjectName): Promise<void> {
    for (const connections of connectionCounts) await wholeRound(name, connections, 0.5)
    while (tallies.get(name)!.sent < plan.warmUpRequests) {
      const missing = plan.warmUpRequests - tallies.get(name)!.sent
      await wholeRound(name, 128, missing / paces.get(`${name} c128`)!)
    }
    if (streamsAreMeasured && plan.streamSubjects.includes(name)) {
      const { url, headers } = subjects.get(name)!
      const job: StreamJob = { url, headers, pid: null, ...warmStreams, measureMs: 5_000 }
      count(name, await ask<StreamJob, StreamResult>(workers.streamLoad, job, 60_000))
    }
    printProgress(`${name} is warm after ${tallies.get(name)!.sent} requests`)
  }

  async function measureWhole(): Promise<void> {
    for (let round = 0; round < plan.rounds; round++) {
      for (const name of rotate(plan.subjects, round)) {
        for (const connections of connectionCounts) {
          const result = await wholeRound(name, connections, plan.secondsPerRound)
          append(measured.whole, `${name} c${connections}`, result)
          printProgress(
            `round ${round + 1}/${plan.rounds}  ${name.padEnd(10)} c${connections}: ${Math.round(result.rps)} req/s`,
          )
        }
      }
    }
  }

  async function measureStreams(shape: StreamShape, results: Map<SubjectName, Calm<StreamResult>[]>): Promise<void> {
    for (let round = 0; round < plan.streamRounds; round++) {
      for (const name of rotate(plan.streamSubjects, round)) {
        const { url, headers, pid } = subjects.get(name)!
        const job: StreamJob = { url, headers, pid, ...shape, measureMs: plan.streamMeasureMs }
        // Idle means before the first attempt, since an attempt leaves garbage behind.
        let rssIdleMb: Figure | undefined
        const result = await measureCalmly(async () => {
          const tried = await ask<StreamJob, StreamResult>(workers.streamLoad, job, plan.streamMeasureMs + 40_000)
          count(name, tried)
          rssIdleMb ??= tried.rssIdleMb
          return { ...tried, rssIdleMb }
        })
        append(results, name, result)
        const cpu = result.cpuUsPerChunk === null ? '' : `, ${result.cpuUsPerChunk.toFixed(1)} us CPU/chunk`
        printProgress(`${shape.streams} streams ${name.padEnd(10)} p50 ${result.delayP50Ms.toFixed(2)} ms${cpu}`)
      }
    }
  }

  /** Runs at half of Switchyard's throughput at 128 connections: half the median of its rounds, or half the warm-up pace without rounds. */
  async function measureHalfLoad(): Promise<void> {
    const fullRounds = measured.whole.get('switchyard c128')?.map(round => round.rps)
    const full = fullRounds
      ? percentile(
          fullRounds.sort((a, b) => a - b),
          0.5,
        )
      : paces.get('switchyard c128')!
    const ratePerS = Math.round(full / 2)
    for (let round = 0; round < plan.rounds; round++) {
      for (const name of rotate(plan.streamSubjects, round)) {
        const { url, headers, pid } = subjects.get(name)!
        const job: PacedJob = { url, headers, pid, body: wholeBody, ratePerS, seconds: plan.secondsPerRound }
        const result = await measureCalmly(async () => {
          const tried = await ask<PacedJob, PacedResult>(workers.pacedLoad, job, 120_000)
          count(name, tried)
          return tried
        })
        append(measured.halfLoad, name, result)
        printProgress(`half load ${name.padEnd(10)} ${Math.round(result.rps)} req/s: p99 ${result.p99Ms.toFixed(2)} ms`)
        if (result.skipped > 0)
          printProgress(`${name} did not hold ${ratePerS} req/s: ${result.skipped} requests were not sent`)
      }
    }
  }

  async function measureCustomers(): Promise<ManyCustomers> {
    const subject = subjects.get('switchyard')!
    const requests = Math.ceil(paces.get('switchyard c128')! * plan.secondsPerRound)
    return measureManyCustomers(subject, plan.rounds, async (customers, { isFirstCustomer }) => {
      const databaseMicrosUsed = subject.watchDatabaseCpu!()
      const result = await loadOnce(workers.load, subject, {
        ...customers,
        body: wholeBody,
        connections: 128,
        requests,
      })
      const databaseMicros = databaseMicrosUsed()
      // The tally counts only the first customer.
      if (isFirstCustomer) count('switchyard', result)
      else if (result.failed > 0)
        throw new Error(`${result.failed} requests of ${customers.headers.length} customers failed`)
      const { rps, p99Ms, cpuShare, ok } = result
      return {
        rps,
        p99Ms,
        gatewayUs: cpuShare === null ? null : (cpuShare * 1e6) / rps,
        databaseUs: databaseMicros === null ? null : databaseMicros / ok,
      }
    })
  }

  async function wholeRound(name: SubjectName, connections: number, seconds: number): Promise<LoadResult> {
    const cell = `${name} c${connections}`
    const requests = Math.ceil((paces.get(cell) ?? coldPace(connections)) * seconds)
    const subject = subjects.get(name)!
    const result = await loadOnce(workers.load, subject, {
      headers: [subject.headers],
      body: wholeBody,
      connections,
      requests: Math.max(requests, connections),
    })
    paces.set(cell, result.rps)
    count(name, result)
    return result
  }

  function count(name: SubjectName, result: Tally): void {
    addToTally(tallies.get(name)!, result)
  }
}

type StreamShape = Pick<StreamJob, 'body' | 'streams' | 'rampMs' | 'chunksPerStream'>

const fastStreams: StreamShape = { body: streamBody, streams: 500, rampMs: 2000, chunksPerStream: 100 }
const manyStreams: StreamShape = { body: slowStreamBody, streams: 1000, rampMs: 3000, chunksPerStream: 60 }
/** About 5,000 chunks, from too few streams to affect memory. */
const warmStreams: StreamShape = { body: streamBody, streams: 20, rampMs: 500, chunksPerStream: 100 }

/** Assumed requests per second before the first measurement; low, so that the slowest subject finishes in time. */
function coldPace(connections: number): number {
  return connections === 1 ? 400 : 1_500
}

function append<Key, Item>(lists: Map<Key, Item[]>, key: Key, item: Item): void {
  const list = lists.get(key)
  if (list) list.push(item)
  else lists.set(key, [item])
}
