import type { LoadJob, LoadResult } from './load.ts'
import type { PacedJob, PacedResult } from './paced-load.ts'
import { percentile } from './percentile.ts'
import { ask, type Running } from './process.ts'
import { readCpuMicros } from './process-usage.ts'
import { connectionCounts, type HotCustomer, type Measured } from './report.ts'
import { slowStreamBody, streamBody, wholeBody } from './request-bodies.ts'
import type { Figure } from './spread.ts'
import { type Calm, measureCalmly } from './stolen-time.ts'
import type { StreamJob, StreamResult } from './stream-load.ts'
import type { Subject, SubjectName, Tally } from './subjects/subject.ts'

/** In the order they run. */
export const workloads = ['many-streams', 'whole', 'half-load', 'hot-customer', 'streams'] as const
export type Workload = (typeof workloads)[number]

export type MeasurePlan = {
  subjects: SubjectName[]
  workloads: ReadonlySet<Workload>
  /** The subjects of streams and of the half load. */
  streamSubjects: SubjectName[]
  rounds: number
  secondsPerRound: number
  warmUpRequests: number
  streamRounds: number
  streamMeasureMs: number
}

/** The processes that load.ts, paced-load.ts and stream-load.ts run in. */
export type LoadWorkers = { load: Running; pacedLoad: Running; streamLoad: Running }

/**
 * Warms every subject and puts it through the workloads of the plan. Findings are empty: what was sent to whom is in `tallies`, to compare
 * the books with.
 */
export async function measure(
  plan: MeasurePlan,
  subjects: ReadonlyMap<SubjectName, Subject>,
  workers: LoadWorkers,
  say: (text: string) => void,
): Promise<{ measured: Measured; tallies: Map<SubjectName, Tally> }> {
  const measured: Measured = {
    whole: new Map(),
    streams: new Map(),
    manyStreams: new Map(),
    halfLoad: new Map(),
    hotCustomer: null,
    findings: [],
  }
  const tallies = new Map<SubjectName, Tally>(plan.subjects.map(name => [name, { sent: 0, ok: 0, failed: 0 }]))
  /** What each subject did last, requests a second by subject and number of connections. */
  const paces = new Map<string, number>()
  const streamsAreMeasured = plan.workloads.has('many-streams') || plan.workloads.has('streams')

  for (const name of plan.subjects) await warmUp(name)
  // Before the others, whose garbage would leave room for streams in the memory that counts as idle.
  if (plan.workloads.has('many-streams')) await databaseLast(() => measureStreams(manyStreams, measured.manyStreams))
  if (plan.workloads.has('whole')) await measureWhole()
  if (plan.workloads.has('half-load')) await databaseLast(measureHalfLoad)
  if (plan.workloads.has('hot-customer')) measured.hotCustomer = await measureHotCustomer()
  if (plan.workloads.has('streams')) await databaseLast(() => measureStreams(fastStreams, measured.streams))
  return { measured, tallies }

  /** For delays: nobody waits for a database that shares their core. */
  async function databaseLast(work: () => Promise<void>): Promise<void> {
    for (const subject of subjects.values()) subject.setDatabaseTurn?.('last')
    await work()
    for (const subject of subjects.values()) subject.setDatabaseTurn?.('equal')
  }

  /** As many requests and streams for each subject, so that the compiler is done with all of them. The first few thousand find out how fast a cell is. */
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
    say(`${name} is warm after ${tallies.get(name)!.sent} requests`)
  }

  async function measureWhole(): Promise<void> {
    for (let round = 0; round < plan.rounds; round++) {
      for (const name of rotate(plan.subjects, round)) {
        for (const connections of connectionCounts) {
          const result = await wholeRound(name, connections, plan.secondsPerRound)
          append(measured.whole, `${name} c${connections}`, result)
          say(`round ${round + 1}/${plan.rounds}  ${name.padEnd(10)} c${connections}: ${Math.round(result.rps)} req/s`)
        }
      }
    }
  }

  async function measureStreams(shape: StreamShape, results: Map<SubjectName, Calm<StreamResult>[]>): Promise<void> {
    for (let round = 0; round < plan.streamRounds; round++) {
      for (const name of rotate(plan.streamSubjects, round)) {
        const { url, headers, pid } = subjects.get(name)!
        const job: StreamJob = { url, headers, pid, ...shape, measureMs: plan.streamMeasureMs }
        // Idle is before the first try: what that leaves behind is no longer idle.
        let rssIdleMb: Figure | undefined
        const result = await measureCalmly(async () => {
          const tried = await ask<StreamJob, StreamResult>(workers.streamLoad, job, plan.streamMeasureMs + 40_000)
          count(name, tried)
          rssIdleMb ??= tried.rssIdleMb
          return { ...tried, rssIdleMb }
        })
        append(results, name, result)
        const cpu = result.cpuUsPerChunk === null ? '' : `, ${result.cpuUsPerChunk.toFixed(1)} us CPU/chunk`
        say(`${shape.streams} streams ${name.padEnd(10)} p50 ${result.delayP50Ms.toFixed(2)} ms${cpu}`)
      }
    }
  }

  /** At half of what Switchyard does at 128 connections: the median of its rounds, or the warm-up where there were none. */
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
        say(`half load ${name.padEnd(10)} ${Math.round(result.rps)} req/s: p99 ${result.p99Ms.toFixed(2)} ms`)
        if (result.skipped > 0) say(`${name} did not hold ${ratePerS} req/s: ${result.skipped} were not sent`)
      }
    }
  }

  async function measureHotCustomer(): Promise<HotCustomer> {
    const subject = subjects.get('switchyard')!
    const [hot, spread] = [[subject.headers], await subject.addCustomers!(spreadCustomers)]
    const requests = Math.ceil(paces.get('switchyard c128')! * plan.secondsPerRound)
    const hotRound = async () => {
      const result = await loadOnce(subject, hot, 128, requests)
      count('switchyard', result)
      say(`1 customer: ${Math.round(result.rps)} req/s`)
      return result
    }
    const spreadRound = async () => {
      const result = await loadOnce(subject, spread, 128, requests)
      // The tally is the first customer's.
      if (result.failed > 0) throw new Error(`${result.failed} requests of ${spreadCustomers} customers failed`)
      say(`${spreadCustomers} customers: ${Math.round(result.rps)} req/s`)
      return result
    }
    // The first request of a customer pays for finding the key.
    await spreadRound()
    const rounds: Omit<HotCustomer, 'balanceUpdatesPerS'> = { customers: spreadCustomers, hot: [], spread: [] }
    for (let round = 0; round < plan.rounds; round++) {
      if (round % 2 === 0) rounds.hot.push(await hotRound())
      rounds.spread.push(await spreadRound())
      if (round % 2 === 1) rounds.hot.push(await hotRound())
    }
    const stopWatching = await subject.watchBalanceRow!()
    const startedMs = performance.now()
    await hotRound()
    const seconds = (performance.now() - startedMs) / 1000
    return { ...rounds, balanceUpdatesPerS: (await stopWatching()) / seconds }
  }

  async function wholeRound(name: SubjectName, connections: number, seconds: number): Promise<LoadResult> {
    const cell = `${name} c${connections}`
    const requests = Math.ceil((paces.get(cell) ?? coldPace(connections)) * seconds)
    const subject = subjects.get(name)!
    const result = await loadOnce(subject, [subject.headers], connections, Math.max(requests, connections))
    paces.set(cell, result.rps)
    count(name, result)
    return result
  }

  /** A round is over when its charges are committed, so that nobody is faster for putting them off. */
  async function loadOnce(
    { url, pid, settled }: Subject,
    headers: Record<string, string>[],
    connections: number,
    requests: number,
  ): Promise<LoadResult> {
    const job: LoadJob = { url, headers, pid, body: wholeBody, connections, requests }
    if (settled === undefined || pid === null) return ask<LoadJob, LoadResult>(workers.load, job, 120_000)
    const cpuBefore = readCpuMicros(pid)
    const result = await ask<LoadJob, LoadResult>(workers.load, job, 120_000)
    const answeredMs = performance.now()
    await settled()
    const elapsedMs = (result.ok / result.rps) * 1000 + (performance.now() - answeredMs)
    const cpuAfter = readCpuMicros(pid)
    const cpuShare = cpuBefore === null || cpuAfter === null ? null : (cpuAfter - cpuBefore) / 1000 / elapsedMs
    return { ...result, rps: (result.ok / elapsedMs) * 1000, cpuShare }
  }

  function count(name: SubjectName, result: Tally): void {
    const tally = tallies.get(name)!
    tally.sent += result.sent
    tally.ok += result.ok
    tally.failed += result.failed
  }
}

type StreamShape = Pick<StreamJob, 'body' | 'streams' | 'rampMs' | 'chunksPerStream'>

const fastStreams: StreamShape = { body: streamBody, streams: 500, rampMs: 2000, chunksPerStream: 100 }
const manyStreams: StreamShape = { body: slowStreamBody, streams: 1000, rampMs: 3000, chunksPerStream: 60 }
/** So few that their memory is none, and some 5,000 chunks. */
const warmStreams: StreamShape = { body: streamBody, streams: 20, rampMs: 500, chunksPerStream: 100 }
const spreadCustomers = 1000

/** Requests a second, as a guess before anything was measured; low, since the slowest subject has to get through them. */
function coldPace(connections: number): number {
  return connections === 1 ? 400 : 1_500
}

/** Each round begins with another subject, so that none always runs right after the same neighbour. */
function rotate<Item>(items: Item[], by: number): Item[] {
  const start = by % items.length
  return [...items.slice(start), ...items.slice(0, start)]
}

function append<Key, Item>(lists: Map<Key, Item[]>, key: Key, item: Item): void {
  const list = lists.get(key)
  if (list) list.push(item)
  else lists.set(key, [item])
}
