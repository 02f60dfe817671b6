import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readMachine } from './machine.ts'
import { type MeasurePlan, measure, type Workload, workloads } from './measure.ts'
import { type Cores, pin, planCores, startServer, startWorker } from './process.ts'
import { toJson, toMarkdown } from './report.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { say } from './say.ts'
import { startDirect } from './subjects/direct.ts'
import { startPortkey } from './subjects/portkey.ts'
import { startRelay } from './subjects/relay.ts'
import { type Setting, type Subject, type SubjectName, subjectNames } from './subjects/subject.ts'
import { startSwitchyard } from './subjects/switchyard.ts'

const starters: Record<SubjectName, (setting: Setting) => Promise<Subject>> = {
  direct: startDirect,
  relay: startRelay,
  switchyard: startSwitchyard,
  portkey: startPortkey,
}

/** `npm run bench`: see bench/README.md for what it measures and how to read it. */
const plan = readPlanOrLeave()
const dir = makeBenchmarkDir()
await runBenchmark(dir, () => bench(plan, dir), plan)

type Plan = MeasurePlan & {
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

  const { measured, tallies } = await measure(plan, subjects, { load, pacedLoad, streamLoad }, say)
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
