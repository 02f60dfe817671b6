import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { assertAllOk, requestsFinding } from './finding.ts'
import { prepareMachine } from './machine.ts'
import { type MeasurePlan, measure, type Workload, workloads } from './measure.ts'
import { printProgress } from './print-progress.ts'
import { type Cores, startLoad, startUpstream } from './process.ts'
import { toJson, toMarkdown } from './report.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { startDirect } from './subjects/direct.ts'
import { startPortkey } from './subjects/portkey.ts'
import { startRelay } from './subjects/relay.ts'
import { type Subject, type SubjectName, type SubjectOptions, subjectNames } from './subjects/subject.ts'
import { startSwitchyard } from './subjects/switchyard.ts'
import { writeReport } from './write-report.ts'

const starters: Record<SubjectName, (options: SubjectOptions) => Promise<Subject>> = {
  direct: startDirect,
  relay: startRelay,
  switchyard: startSwitchyard,
  portkey: startPortkey,
}

/** `npm run bench`: bench/README.md explains the measurements. */
const plan = readPlanOrExit()
const dir = makeBenchmarkDir()
await runBenchmark(dir, () => bench(plan, dir), plan)

type Plan = MeasurePlan & {
  json: boolean
  profile: boolean
  /** False for partial and quick runs. */
  keepReport: boolean
}

async function bench(plan: Plan, dir: string): Promise<void> {
  const { cores, machine } = prepareMachine()
  printProgress(`${machine.cpu}, ${machine.cores} cores, node ${machine.node}; ${describeCores(cores)}`)

  const upstream = await startUpstream(cores, dir)
  const load = startLoad('load.ts', cores, dir)
  const pacedLoad = startLoad('paced-load.ts', cores, dir)
  const streamLoad = startLoad('stream-load.ts', cores, dir)

  const subjects = new Map<SubjectName, Subject>()
  for (const name of plan.subjects) {
    const subjectDir = join(dir, name)
    mkdirSync(subjectDir)
    const options = { upstreamOrigin: upstream.origin, cores, dir: subjectDir, profile: plan.profile }
    subjects.set(name, await starters[name](options))
    printProgress(`${name} is ready`)
  }

  const { measured, tallies } = await measure(plan, subjects, { load, pacedLoad, streamLoad })
  for (const [name, subject] of subjects) {
    const tally = tallies.get(name)!
    measured.findings.push(requestsFinding(name, tally))
    if (subject.check) measured.findings.push(...(await subject.check(tally)))
  }
  for (const finding of measured.findings) printProgress(`${finding.ok ? 'ok  ' : 'FAIL'} ${finding.text}`)
  for (const subject of subjects.values()) await subject.stop()

  const report = toMarkdown(measured, machine, plan)
  if (plan.keepReport) printProgress(`wrote ${writeReport('benchmark', report)}`)
  process.stdout.write(plan.json ? `${JSON.stringify(toJson(measured))}\n` : `\n${report}`)
  assertAllOk(measured.findings)
}

function describeCores(cores: Cores): string {
  if (cores === null) return 'no process pinned (no taskset, or only one core)'
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
  if (unknown.length > 0) throw new Error(`--only: unknown ${unknown.join(', ')}; choose from ${names.join(', ')}`)
  const askedSubjects = subjectNames.filter(name => only.includes(name))
  const askedWorkloads = workloads.filter(name => only.includes(name))
  // Added delays are relative to `direct`, so it always runs.
  const subjects = subjectNames.filter(
    name => name === 'direct' || askedSubjects.length === 0 || askedSubjects.includes(name),
  )
  const usual: readonly Workload[] = quick ? ['whole', 'streams'] : workloads
  const chosen = new Set(askedWorkloads.length > 0 ? askedWorkloads : usual)
  if (values['skip-stream']) for (const name of ['streams', 'many-streams'] as const) chosen.delete(name)
  // Both measure Switchyard.
  if (!subjects.includes('switchyard')) for (const name of ['half-load', 'many-customers'] as const) chosen.delete(name)
  return {
    subjects,
    workloads: chosen,
    // Portkey breaks off when 500 streams are open.
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

function readPlanOrExit(): Plan {
  try {
    return readPlan()
  } catch (error) {
    printProgress((error as Error).message)
    process.exit(2)
  }
}

function positive(flag: string, text: string | undefined, otherwise: number): number {
  const value = text === undefined ? otherwise : Number(text)
  if (!(value > 0 && value <= 3600)) throw new Error(`--${flag} must be above 0 and at most 3600, not ${text}`)
  return value
}
