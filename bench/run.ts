import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { LoadJob, LoadResult } from './load.ts'
import { readMachine } from './machine.ts'
import { ask, type Cores, pin, planCores, type Running, startServer, startWorker, stopAll } from './process.ts'
import { connectionCounts, type Measured, toJson, toMarkdown } from './report.ts'
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

const messages = [{ role: 'user', content: 'Where does this car go?' }]
const wholeBody = JSON.stringify({ model: 'bench', messages, max_tokens: 128 })
const streamBody = JSON.stringify({
  model: 'bench',
  messages,
  // Room to spare: a gateway that stops a stream at its limit counts the tokens of our stamps its own way.
  max_tokens: 1024,
  stream: true,
  stream_options: { include_usage: true },
})

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

type Plan = {
  subjects: SubjectName[]
  streamSubjects: SubjectName[]
  rounds: number
  secondsPerRound: number
  warmUpSeconds: number
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
  const streamLoad = startWorker('stream-load.ts', [], { core: cores?.load, logFile: join(dir, 'stream-load.log') })

  const subjects = new Map<SubjectName, Subject>()
  for (const name of plan.subjects) {
    const setting: Setting = { upstreamOrigin: upstream.origin, cores, dir: join(dir, name), profile: plan.profile }
    mkdirSync(setting.dir)
    subjects.set(name, await starters[name](setting))
    say(`${name} is up`)
  }

  const measured: Measured = { whole: new Map(), streams: new Map(), findings: [] }
  const tallies = new Map<SubjectName, Tally>(plan.subjects.map(name => [name, { sent: 0, ok: 0, failed: 0 }]))

  const paces = new Map<string, number>()
  const measureOnce = async (name: SubjectName, connections: number, seconds: number) => {
    const cell = `${name} c${connections}`
    const requests = Math.ceil((paces.get(cell) ?? coldPace(connections)) * seconds)
    const result = await loadOnce(load, subjects.get(name)!, connections, Math.max(requests, connections))
    paces.set(cell, result.rps)
    count(tallies.get(name)!, result)
    return result
  }
  for (const name of plan.subjects) {
    // The first few thousand requests find out how fast a cell is; the rest of the warm-up is for the compiler of the subject.
    for (const connections of connectionCounts) await measureOnce(name, connections, 0.5)
    await measureOnce(name, 128, plan.warmUpSeconds)
  }
  for (let round = 0; round < plan.rounds; round++) {
    for (const name of rotate(plan.subjects, round)) {
      for (const connections of connectionCounts) {
        const result = await measureOnce(name, connections, plan.secondsPerRound)
        append(measured.whole, `${name} c${connections}`, result)
        say(`round ${round + 1}/${plan.rounds}  ${name.padEnd(10)} c${connections}: ${Math.round(result.rps)} req/s`)
      }
    }
  }
  for (let round = 0; round < plan.streamRounds; round++) {
    for (const name of rotate(plan.streamSubjects, round)) {
      const result = await streamOnce(streamLoad, subjects.get(name)!, plan.streamMeasureMs)
      count(tallies.get(name)!, result)
      append(measured.streams, name, result)
      const cpu = result.cpuUsPerChunk === null ? '' : `, ${result.cpuUsPerChunk.toFixed(1)} us CPU/chunk`
      say(`streams ${round + 1}/${plan.streamRounds} ${name.padEnd(10)} p50 ${result.delayP50Ms.toFixed(2)} ms${cpu}`)
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

function loadOnce(load: Running, subject: Subject, connections: number, requests: number): Promise<LoadResult> {
  const { url, headers, pid } = subject
  const job: LoadJob = { url, headers, pid, body: wholeBody, connections, requests }
  return ask<LoadJob, LoadResult>(load, job, 120_000)
}

function streamOnce(load: Running, subject: Subject, measureMs: number): Promise<StreamResult> {
  const { url, headers, pid } = subject
  const ramp = { streams: 500, rampMs: 2000, chunksPerStream: 100 }
  const job: StreamJob = { url, headers, pid, body: streamBody, ...ramp, measureMs }
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
  const asked = values.only?.split(',') ?? [...subjectNames]
  const unknown = asked.filter(name => !subjectNames.includes(name as SubjectName))
  if (unknown.length > 0) throw new Error(`--only takes ${subjectNames.join(', ')}; not ${unknown.join(', ')}`)
  // What a gateway adds is counted from `direct`, so it is always there.
  const subjects = subjectNames.filter(name => name === 'direct' || asked.includes(name))
  const { quick } = values
  return {
    subjects,
    // Nobody asks for the peer's streams, and it breaks off when 500 are open.
    streamSubjects: subjects.filter(name => name !== 'portkey'),
    rounds: positive('rounds', values.rounds, quick ? 3 : 5),
    secondsPerRound: positive('seconds', values.seconds, quick ? 0.8 : 8),
    warmUpSeconds: quick ? 1.5 : 5,
    streamRounds: values['skip-stream'] ? 0 : quick ? 1 : 3,
    streamMeasureMs: quick ? 5000 : 15_000,
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
