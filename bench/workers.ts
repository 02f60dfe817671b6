import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { assertAllOk, checksSection, type Finding, requestsFinding } from './finding.ts'
import type { LoadJob, LoadResult } from './load.ts'
import { type Machine, readMachine, reportHead } from './machine.ts'
import { goalsSection, markdownPage, markdownTable } from './markdown.ts'
import { printProgress } from './print-progress.ts'
import { allowedCores, ask, pin, type Running, startLoad, startUpstream } from './process.ts'
import { readCpuMicros } from './process-usage.ts'
import { wholeBody } from './request-bodies.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { median, spread } from './spread.ts'
import type { Subject } from './subjects/subject.ts'
import { startSwitchyard } from './subjects/switchyard.ts'
import { addToTally, createTally, type Tally } from './tally.ts'
import { writeReport } from './write-report.ts'

/** `npm run bench:workers`: compares several workers on two cores with one process on one core. See bench/README.md. */
const { values } = parseArgs({
  options: {
    workers: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '4' },
  },
})
const [workers, rounds, seconds] = [Number(values.workers), Number(values.rounds), Number(values.seconds)]
if (!(workers >= 2 && workers <= 64 && rounds >= 1 && seconds > 0)) {
  printProgress('--workers must be 2 to 64, --rounds at least 1, and --seconds above 0')
  process.exit(2)
}

const WARM_UP_REQUESTS = 30_000
const CONNECTIONS = 128
/** Shorter runs write no report. */
const REPORT_ROUNDS_MIN = 5
/** Two for the gateway, one for the load and the upstream, one for PostgreSQL. With fewer, other processes use the gateway's second core. */
const CORES_NEEDED = 4

const dir = makeBenchmarkDir()
await runBenchmark(dir, compare)

async function compare(): Promise<void> {
  const allowed = allowedCores()
  if (allowed.length < 2) throw new Error('This benchmark needs two cores and `taskset`.')
  const places = placesOn(allowed)
  pin(process.pid, places.others)
  const machine = readMachine(null)
  const coresFor = (subject: string) => {
    return { subject, upstream: places.others, load: places.others, database: places.database }
  }
  const upstream = await startUpstream(coresFor(places.oneCore), dir)
  const load = startLoad('load.ts', coresFor(places.oneCore), dir)
  const start = async (name: string, count: number, core: string): Promise<Measured> => {
    const gatewayDir = join(dir, name.replaceAll(' ', '-'))
    mkdirSync(gatewayDir)
    const subject = await startSwitchyard({
      upstreamOrigin: upstream.origin,
      cores: coresFor(core),
      dir: gatewayDir,
      profile: false,
      workers: count,
    })
    return { name, subject, rps: 0, tally: createTally(), results: [] }
  }
  const one = await start('one process', 1, places.oneCore)
  const many = await start(`${workers} workers`, workers, places.twoCores)
  for (const subject of [one, many]) {
    subject.rps = (await measure(load, subject, WARM_UP_REQUESTS)).rps
    printProgress(`${subject.name}: warm`)
  }
  for (let round = 0; round < rounds; round++) {
    for (const subject of round % 2 === 0 ? [one, many] : [many, one]) {
      const result = await measure(load, subject, Math.ceil(subject.rps * seconds))
      subject.results.push(result)
      printProgress(`${subject.name}: ${Math.round(result.rps)} req/s, ${result.cpuUs.toFixed(0)} µs CPU/request`)
    }
  }
  const findings: Finding[] = []
  for (const { name, tally, subject } of [one, many]) {
    findings.push(requestsFinding(name, tally), ...(await subject.check!(tally)))
    await subject.stop()
  }
  const report = workersReport(machine, places, allowed.length >= CORES_NEEDED, one, many, findings)
  process.stdout.write(report)
  if (rounds >= REPORT_ROUNDS_MIN) printProgress(`wrote ${writeReport('workers', report)}`)
  assertAllOk(findings)
}

type Places = ReturnType<typeof placesOn>

/** Cores in the notation of `taskset`. */
function placesOn(allowed: readonly number[]) {
  const [last, lastButOne] = [allowed.at(-1)!, allowed.at(-2)!]
  const rest = allowed.slice(0, -2)
  return {
    oneCore: String(last),
    twoCores: `${lastButOne},${last}`,
    others: String(rest[0] ?? lastButOne),
    database: rest.length > 1 ? rest.slice(1).join(',') : String(rest[0] ?? lastButOne),
  }
}

type Measured = {
  name: string
  subject: Subject
  /** Throughput of the warm-up, which sets the number of requests per round. */
  rps: number
  tally: Tally
  results: Result[]
}

/** `cpuUs`: CPU time per request of all processes of the gateway. */
type Result = LoadResult & { cpuUs: number }

async function measure(load: Running, { subject, tally }: Measured, requests: number): Promise<Result> {
  const cpuMicros = () => subject.pids!.reduce((sum, pid) => sum + readCpuMicros(pid)!, 0)
  const before = cpuMicros()
  const job: LoadJob = {
    url: subject.url,
    headers: [subject.headers],
    body: wholeBody,
    connections: CONNECTIONS,
    requests,
    pid: null,
  }
  const result = addToTally(tally, await ask<LoadJob, LoadResult>(load, job, 300_000))
  return { ...result, cpuUs: (cpuMicros() - before) / result.ok }
}

function workersReport(
  machine: Machine,
  places: Places,
  hasCores: boolean,
  one: Measured,
  many: Measured,
  findings: Finding[],
): string {
  const ratios = one.results.map((result, round) => many.results[round]!.rps / result.rps)
  const possibleRatios = one.results.map((result, round) => (2 * result.cpuUs) / many.results[round]!.cpuUs)
  const command = `npm run bench:workers -- --workers ${workers} --rounds ${rounds} --seconds ${seconds}`
  return markdownPage([
    reportHead(`${workers} workers on two cores`, command, machine, [
      `- cores: one process ${places.oneCore}, workers and their primary ${places.twoCores}, upstream and load ${places.others}, PostgreSQL ${places.database}`,
      ...(hasCores
        ? []
        : [
            `- this machine has fewer than the ${CORES_NEEDED} cores that the comparison needs: load, upstream and PostgreSQL use the second core of the workers. Compare the CPU time per request instead of requests/s.`,
          ]),
      `- rounds: ${rounds} of ${seconds} s each, in turns; each cell: median (lowest to highest)`,
    ]),
    markdownTable(
      ['', 'requests/s', 'p50 ms', 'p99 ms', 'CPU µs/request'],
      [one, many].map(({ name, results }) => {
        const cell = (read: (result: Result) => number, digits: number) => spread(results.map(read), digits)
        return [name, cell(r => r.rps, 0), cell(r => r.p50Ms, 1), cell(r => r.p99Ms, 1), cell(r => r.cpuUs, 0)]
      }),
    ),
    markdownTable(
      ['ratio of workers to one process', ''],
      [
        ['requests/s, measured', spread(ratios, 2)],
        ['requests/s, possible on two free cores by CPU time', spread(possibleRatios, 2)],
      ],
    ),
    goalsSection([
      {
        goal: hasCores ? 'throughput on two cores, × one core' : 'possible throughput on two cores, × one core',
        value: median(hasCores ? ratios : possibleRatios)!,
        limit: 1.8,
        isFloor: true,
      },
    ]),
    checksSection(findings),
  ])
}
