import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import type { LoadJob, LoadResult } from './load.ts'
import { readMachine } from './machine.ts'
import type { PacedJob } from './paced-load.ts'
import { percentile } from './percentile.ts'
import { ask, type Cores, pin, planCores, type Running, startServer, startWorker, stopAll } from './process.ts'
import { connectionCounts, type HotCustomer, type Measured, toJson, toMarkdown } from './report.ts'
import { slowStreamBody, streamBody, wholeBody } from './request-bodies.ts'
import type { StreamJob, StreamResult } from './stream-load.ts'
import { startDirect } from './subjects/direct.ts'
import { startPortkey } from './subjects/portkey.ts'
import { startRelay } from './subjects/relay.ts'
import { type Setting, type Subject, type SubjectName, subjectNames, type Tally } from './subjects/subject.ts'
import { startSwitchyard } from './subjects/switchyard.ts'

const starters: Record<SubjectName, (setting: Setting) => Promise<Subject>> = {
  direct: startDirect,
  relay: startRelay,
  switchyard: startSwitchyard,
  portkey: startPortkey,
}

const workloads = ['whole', 'streams', 'many-streams', 'half-load', 'hot-customer'] as const
type Workload = (typeof workloads)[number]

const fastStreams: StreamShape = { body: streamBody, streams: 500, rampMs: 2000, chunksPerStream: 100 }
const manyStreams: StreamShape = { body: slowStreamBody, streams: 1000, rampMs: 3000, chunksPerStream: 60 }
const spreadCustomers = 1000
// A backend reports its counts when it is idle, ten seconds after its last report at the latest.
const statisticsLagMs = 11_000

/** `npm run bench`: see bench/README.md for what it measures and how to read it. */
const plan = readPlanOrLeave()
const dir = makeDir()
let isLeaving = false
process.once('SIGINT', () => leave(130))
process.once('SIGTERM', () => leave(143))
try {
  await bench(plan, dir)
  await leave(0)
} catch (error) {
  // On the way out after Ctrl-C, everything that was waited for fails; that is no news.
  if (!isLeaving) {
    say(error instanceof Error ? (error.stack ?? error.message) : String(error))
    await leave(1)
  }
}

type StreamShape = Pick<StreamJob, 'body' | 'streams' | 'rampMs' | 'chunksPerStream'>

type Plan = {
  subjects: SubjectName[]
  workloads: Set<Workload>
  streamSubjects: SubjectName[]
  rounds: number
  secondsPerRound: number
  warmUpRequests: number
  streamRounds: number
  streamMeasureMs: number
  json: boolean
  profile: boolean
  /** Partial and quick runs are for looking at, not for keeping. */
  keepReport: boolean
}

async function bench(plan: Plan, dir: string): Promise<void> {
  const cores = planCores()
  if (cores !== null) pin(process.pid, cores.load)
  const machine = readMachine(cores)
  say(`${machine.cpu}, ${machine.cores} cores, node ${machine.node}; ${describeCores(cores)}`)

  const upstream = await startServer('upstream.ts', [], { core: cores?.upstream, logFile: join(dir, 'upstream.log') })
  const load = startWorker('load.ts', [], { core: cores?.load, logFile: join(dir, 'load.log') })
  const pacedLoad = startWorker('paced-load.ts', [], { core: cores?.load, logFile: join(dir, 'paced-load.log') })
  const streamLoad = startWorker('stream-load.ts', [], { core: cores?.load, logFile: join(dir, 'stream-load.log') })

  const subjects = new Map<SubjectName, Subject>()
  for (const name of plan.subjects) {
    const setting: Setting = { upstreamOrigin: upstream.origin, cores, dir: join(dir, name), profile: plan.profile }
    mkdirSync(setting.dir)
    subjects.set(name, await starters[name](setting))
    say(`${name} is up`)
  }

  const measured: Measured = {
    whole: new Map(),
    streams: new Map(),
    manyStreams: new Map(),
    halfLoad: new Map(),
    hotCustomer: null,
    findings: [],
  }
  const tallies = new Map<SubjectName, Tally>(plan.subjects.map(name => [name, { sent: 0, ok: 0, failed: 0 }]))

  const paces = new Map<string, number>()
  const measureOnce = async (name: SubjectName, connections: number, seconds: number) => {
    const cell = `${name} c${connections}`
    const requests = Math.ceil((paces.get(cell) ?? coldPace(connections)) * seconds)
    const subject = subjects.get(name)!
    const result = await loadOnce(load, subject, [subject.headers], connections, Math.max(requests, connections))
    paces.set(cell, result.rps)
    count(tallies.get(name)!, result)
    return result
  }
  const measureStreams = async (name: SubjectName, shape: StreamShape) => {
    const result = await streamOnce(streamLoad, subjects.get(name)!, shape, plan.streamMeasureMs)
    count(tallies.get(name)!, result)
    const cpu = result.cpuUsPerChunk === null ? '' : `, ${result.cpuUsPerChunk.toFixed(1)} us CPU/chunk`
    say(`${shape.streams} streams ${name.padEnd(10)} p50 ${result.delayP50Ms.toFixed(2)} ms${cpu}`)
    return result
  }

  for (const name of plan.subjects) {
    // The first few thousand requests find out how fast a cell is; the rest of the warm-up is for the compiler of the subject.
    for (const connections of connectionCounts) await measureOnce(name, connections, 0.5)
    while (tallies.get(name)!.sent < plan.warmUpRequests) {
      const missing = plan.warmUpRequests - tallies.get(name)!.sent
      await measureOnce(name, 128, missing / paces.get(`${name} c128`)!)
    }
    say(`${name} is warm after ${tallies.get(name)!.sent} requests`)
  }

  // Before the others, whose garbage would leave room for streams in the memory that counts as idle.
  if (plan.workloads.has('many-streams')) {
    for (let round = 0; round < plan.streamRounds; round++) {
      for (const name of rotate(plan.streamSubjects, round)) {
        append(measured.manyStreams, name, await measureStreams(name, manyStreams))
      }
    }
  }
  for (let round = 0; plan.workloads.has('whole') && round < plan.rounds; round++) {
    for (const name of rotate(plan.subjects, round)) {
      for (const connections of connectionCounts) {
        const result = await measureOnce(name, connections, plan.secondsPerRound)
        append(measured.whole, `${name} c${connections}`, result)
        say(`round ${round + 1}/${plan.rounds}  ${name.padEnd(10)} c${connections}: ${Math.round(result.rps)} req/s`)
      }
    }
  }
  if (plan.workloads.has('half-load')) {
    const ratePerS = Math.round(halfLoadOf(paces, measured))
    for (let round = 0; round < plan.rounds; round++) {
      for (const name of rotate(plan.streamSubjects, round)) {
        const { url, headers, pid } = subjects.get(name)!
        const job: PacedJob = { url, headers, pid, body: wholeBody, ratePerS, seconds: plan.secondsPerRound }
        const result = await ask<PacedJob, LoadResult>(pacedLoad, job, 120_000)
        count(tallies.get(name)!, result)
        append(measured.halfLoad, name, result)
        say(`half load ${name.padEnd(10)} ${Math.round(result.rps)} req/s: p99 ${result.p99Ms.toFixed(2)} ms`)
      }
    }
  }
  if (plan.workloads.has('hot-customer')) {
    const subject = subjects.get('switchyard')!
    const [hot, spread] = [[subject.headers], await subject.addCustomers!(spreadCustomers)]
    const requests = Math.ceil(paces.get('switchyard c128')! * plan.secondsPerRound)
    const run = async (headers: Record<string, string>[]) => {
      const result = await loadOnce(load, subject, headers, 128, requests)
      if (headers === hot) count(tallies.get('switchyard')!, result)
      else if (result.failed > 0) throw new Error(`${result.failed} requests of ${spreadCustomers} customers failed`)
      say(`${headers.length} customers: ${Math.round(result.rps)} req/s`)
      return result
    }
    // The first request of a customer pays for finding the key.
    await run(spread)
    const rounds: HotCustomer = { customers: spreadCustomers, hot: [], spread: [], balanceUpdatesPerS: 0 }
    for (let round = 0; round < plan.rounds; round++) {
      for (const headers of rotate([hot, spread], round)) {
        const result = await run(headers)
        if (headers === hot) rounds.hot.push(result)
        else rounds.spread.push(result)
      }
    }
    await delay(statisticsLagMs)
    const before = await subject.countBalanceUpdates!()
    const startedMs = performance.now()
    await run(hot)
    const seconds = (performance.now() - startedMs) / 1000
    await delay(statisticsLagMs)
    rounds.balanceUpdatesPerS = ((await subject.countBalanceUpdates!()) - before) / seconds
    measured.hotCustomer = rounds
  }
  for (let round = 0; plan.workloads.has('streams') && round < plan.streamRounds; round++) {
    for (const name of rotate(plan.streamSubjects, round)) {
      append(measured.streams, name, await measureStreams(name, fastStreams))
    }
  }

  for (const [name, subject] of subjects) {
    const tally = tallies.get(name)!
    const text = `${name}: ${tally.sent} requests sent, ${tally.ok} answered whole, ${tally.failed} failed`
    measured.findings.push({ ok: tally.failed === 0, text })
    if (subject.check) measured.findings.push(...(await subject.check(tally)))
  }
  for (const finding of measured.findings) say(`${finding.ok ? 'ok  ' : 'FAIL'} ${finding.text}`)
  for (const subject of subjects.values()) await subject.stop()

  const report = toMarkdown(measured, machine, plan)
  if (plan.keepReport) {
    const file = `bench/results/${machine.startedAt.slice(0, 16).replace('T', '-').replace(':', '')}.md`
    mkdirSync(new URL('results', import.meta.url), { recursive: true })
    writeFileSync(new URL(`../${file}`, import.meta.url), report)
    say(`wrote ${file}`)
  }
  process.stdout.write(plan.json ? `${JSON.stringify(toJson(measured))}\n` : `\n${report}`)
  const broken = measured.findings.filter(finding => !finding.ok)
  if (broken.length > 0)
    throw new Error(`the figures are not to be trusted: ${broken.map(({ text }) => text).join('; ')}`)
}

/** Requests a second, as a guess before anything was measured; low, since the slowest subject has to get through them. */
function coldPace(connections: number): number {
  return connections === 1 ? 400 : 1_500
}

/** Half of what Switchyard does at 128 connections: the median of its rounds, or the warm-up where there were none. */
function halfLoadOf(paces: Map<string, number>, { whole }: Measured): number {
  const rounds = whole.get('switchyard c128')?.map(round => round.rps)
  return (
    (rounds === undefined
      ? paces.get('switchyard c128')!
      : percentile(
          rounds.sort((a, b) => a - b),
          0.5,
        )) / 2
  )
}

function loadOnce(
  load: Running,
  { url, pid }: Subject,
  headers: Record<string, string>[],
  connections: number,
  requests: number,
): Promise<LoadResult> {
  const job: LoadJob = { url, headers, pid, body: wholeBody, connections, requests }
  return ask<LoadJob, LoadResult>(load, job, 120_000)
}

function streamOnce(load: Running, subject: Subject, shape: StreamShape, measureMs: number): Promise<StreamResult> {
  const { url, headers, pid } = subject
  const job: StreamJob = { url, headers, pid, ...shape, measureMs }
  return ask<StreamJob, StreamResult>(load, job, measureMs + 40_000)
}

function count(tally: Tally, result: Tally): void {
  tally.sent += result.sent
  tally.ok += result.ok
  tally.failed += result.failed
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

function describeCores(cores: Cores): string {
  if (cores === null) return 'nothing pinned (no taskset, or one core)'
  return `gateway on core ${cores.subject}, upstream ${cores.upstream}, load ${cores.load}, database ${cores.database}`
}

function readPlan(): Plan {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      only: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      'skip-stream': { type: 'boolean', default: false },
      profile: { type: 'boolean', default: false },
    },
  })
  const { quick } = values
  const only = values.only?.split(',') ?? []
  const names: readonly string[] = [...subjectNames, ...workloads]
  const unknown = only.filter(name => !names.includes(name))
  if (unknown.length > 0) throw new Error(`--only takes ${names.join(', ')}; not ${unknown.join(', ')}`)
  const askedSubjects = subjectNames.filter(name => only.includes(name))
  const askedWorkloads = workloads.filter(name => only.includes(name))
  // What a gateway adds is counted from `direct`, so it is always there.
  const subjects = subjectNames.filter(
    name => name === 'direct' || askedSubjects.length === 0 || askedSubjects.includes(name),
  )
  const usual: readonly Workload[] = quick ? ['whole', 'streams'] : workloads
  const chosen = new Set(askedWorkloads.length > 0 ? askedWorkloads : usual)
  if (values['skip-stream']) for (const name of ['streams', 'many-streams'] as const) chosen.delete(name)
  // Both are about Switchyard alone.
  if (!subjects.includes('switchyard')) for (const name of ['half-load', 'hot-customer'] as const) chosen.delete(name)
  return {
    subjects,
    workloads: chosen,
    // Nobody asks for the peer's streams, and it breaks off when 500 are open.
    streamSubjects: subjects.filter(name => name !== 'portkey'),
    rounds: positive('rounds', values.rounds, quick ? 3 : 5),
    secondsPerRound: positive('seconds', values.seconds, quick ? 0.6 : 8),
    warmUpRequests: 20_000,
    streamRounds: quick ? 1 : 3,
    streamMeasureMs: quick ? 4000 : 15_000,
    json: values.json,
    profile: values.profile,
    keepReport: !quick && values.only === undefined && !values.profile,
  }
}

function readPlanOrLeave(): Plan {
  try {
    return readPlan()
  } catch (error) {
    say((error as Error).message)
    process.exit(2)
  }
}

function positive(flag: string, text: string | undefined, otherwise: number): number {
  const value = text === undefined ? otherwise : Number(text)
  if (!(value > 0 && value <= 3600)) throw new Error(`--${flag} must be a number above 0 and at most 3600`)
  return value
}

function makeDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'switchyard-bench-'))
  // PostgreSQL does not run as root: started by root, it runs as another user, who must be able to reach its files.
  chmodSync(dir, 0o755)
  return dir
}

async function leave(exitCode: number): Promise<void> {
  isLeaving = true
  await stopAll()
  if (plan.profile) say(`profile and logs: ${dir}`)
  else rmSync(dir, { recursive: true, force: true })
  process.exit(exitCode)
}

function say(text: string): void {
  process.stderr.write(`${text}\n`)
}
