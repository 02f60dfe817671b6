import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import type { LoadJob, LoadResult } from './load.ts'
import { readMachine } from './machine.ts'
import { goalRow, markdownTable } from './markdown.ts'
import { allowedCores, ask, pin, type Running, startServer, startWorker } from './process.ts'
import { readCpuMicros } from './process-usage.ts'
import { wholeBody } from './request-bodies.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { say } from './say.ts'
import { median, spread } from './spread.ts'
import type { Finding, Subject, Tally } from './subjects/subject.ts'
import { startSwitchyard } from './subjects/switchyard.ts'

/** `npm run bench:workers`: what several workers on two cores do against one process on one. See bench/README.md. */
const { values } = parseArgs({
  options: {
    workers: { type: 'string', default: '4' },
    rounds: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '4' },
  },
})
const [workers, rounds, seconds] = [Number(values.workers), Number(values.rounds), Number(values.seconds)]
if (!(workers >= 2 && workers <= 64 && rounds >= 1 && seconds > 0)) {
  say('--workers is 2 to 64, --rounds at least 1, --seconds above 0')
  process.exit(2)
}

const WARM_UP_REQUESTS = 30_000
const CONNECTIONS = 128
/** Shorter runs are for looking at, not for keeping. */
const ROUNDS_KEPT = 5
/** Two for the gateway, one for the load and the upstream, one for PostgreSQL: with fewer, what is compared is not the gateway. */
const CORES_NEEDED = 4

const dir = makeBenchmarkDir()
await runBenchmark(dir, compare)

async function compare(): Promise<void> {
  const allowed = allowedCores()
  if (allowed.length < 2) throw new Error('This needs two cores and `taskset`.')
  const places = placesOn(allowed)
  pin(process.pid, places.others)
  const machine = readMachine(null)
  const upstream = await startServer('upstream.ts', [], { core: places.others, logFile: join(dir, 'upstream.log') })
  const load = startWorker('load.ts', [], { core: places.others, logFile: join(dir, 'load.log') })
  const start = async (name: string, count: number, cores: string): Promise<Measured> => {
    const gatewayDir = join(dir, name.replaceAll(' ', '-'))
    mkdirSync(gatewayDir)
    const { others, database } = places
    const subject = await startSwitchyard({
      upstreamOrigin: upstream.origin,
      cores: { subject: cores, upstream: others, load: others, database },
      dir: gatewayDir,
      profile: false,
      workers: count,
    })
    return { name, subject, rps: 0, tally: { sent: 0, ok: 0, failed: 0 }, results: [] }
  }
  const one = await start('one process', 1, places.oneCore)
  const many = await start(`${workers} workers`, workers, places.twoCores)
  for (const subject of [one, many]) {
    subject.rps = (await measure(load, subject, WARM_UP_REQUESTS)).rps
    say(`${subject.name}: warm`)
  }
  for (let round = 0; round < rounds; round++) {
    for (const subject of round % 2 === 0 ? [one, many] : [many, one]) {
      const result = await measure(load, subject, Math.ceil(subject.rps * seconds))
      subject.results.push(result)
      say(`${subject.name}: ${Math.round(result.rps)} req/s, ${result.cpuUs.toFixed(0)} us CPU/request`)
    }
  }
  const findings: Finding[] = []
  for (const { name, tally, subject } of [one, many]) {
    const { sent, ok, failed } = tally
    findings.push({ ok: failed === 0, text: `${name}: ${sent} requests sent, ${ok} answered whole, ${failed} failed` })
    findings.push(...(await subject.check!(tally)))
    await subject.stop()
  }

  const ratios = one.results.map((result, round) => many.results[round]!.rps / result.rps)
  const allows = one.results.map((result, round) => (2 * result.cpuUs) / many.results[round]!.cpuUs)
  const hasCores = allowed.length >= CORES_NEEDED
  const text = [
    `# ${workers} workers on two cores, ${machine.startedAt.slice(0, 16).replace('T', ' ')} UTC`,
    [
      `- command: \`npm run bench:workers -- --workers ${workers} --rounds ${rounds} --seconds ${seconds}\`, commit ${machine.commit}`,
      `- machine: ${machine.cpu}, ${machine.cores} cores, ${machine.memoryGb} GB, ${machine.system}, Node ${machine.node}`,
      `- load average before the start: ${machine.loadBefore.toFixed(2)}`,
      `- pinned: one process to core ${places.oneCore}, the workers and their primary to ${places.twoCores}, upstream and load to ${places.others}, PostgreSQL to ${places.database}`,
      ...(hasCores
        ? []
        : [
            `- this machine has not the ${CORES_NEEDED} cores that the comparison needs: the second core of the workers is also that of the load, the upstream and PostgreSQL. So requests/s say little; CPU time per request says what two cores of their own would allow.`,
          ]),
      `- rounds: ${rounds} of ${seconds} s each, in turns; each cell: median (lowest to highest)`,
    ].join('\n'),
    markdownTable(
      ['', 'requests/s', 'p50 ms', 'p99 ms', 'CPU us/request'],
      [one, many].map(({ name, results }) => {
        const cell = (read: (result: Result) => number, digits: number) => spread(results.map(read), digits)
        return [name, cell(r => r.rps, 0), cell(r => r.p50Ms, 1), cell(r => r.p99Ms, 1), cell(r => r.cpuUs, 0)]
      }),
    ),
    `Requests/s, x one process: ${spread(ratios, 2)}. What the CPU time allows on two cores, x one process on one: ${spread(allows, 2)}.`,
    `## Goals\n\n${markdownTable(
      ['', 'measured', 'goal', ''],
      [
        goalRow({
          goal: hasCores ? 'throughput on two cores, x one' : 'throughput that the CPU time allows on two cores, x one',
          value: median(hasCores ? ratios : allows)!,
          limit: 1.8,
          isFloor: true,
        }),
      ],
    )}`,
    `## Checks\n\n${findings.map(({ ok, text }) => `- ${ok ? 'ok' : '**failed**'}: ${text}`).join('\n')}`,
  ].join('\n\n')
  process.stdout.write(`${text}\n`)
  if (rounds >= ROUNDS_KEPT) {
    const file = `bench/results/${machine.startedAt.slice(0, 10)}-workers.md`
    writeFileSync(new URL(`../${file}`, import.meta.url), `${text}\n`)
    say(`wrote ${file}`)
  }
  const broken = findings.filter(finding => !finding.ok)
  if (broken.length > 0) throw new Error(broken.map(finding => finding.text).join('; '))
}

/** Cores as `taskset` writes them. */
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
  /** Of the warm-up: how many requests make a round. */
  rps: number
  tally: Tally
  results: Result[]
}

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
  const result = await ask<LoadJob, LoadResult>(load, job, 300_000)
  tally.sent += result.sent
  tally.ok += result.ok
  tally.failed += result.failed
  return { ...result, cpuUs: (cpuMicros() - before) / result.ok }
}
