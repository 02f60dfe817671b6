import { mkdirSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { assertAllOk, checksSection, type Finding, requestsFinding } from './finding.ts'
import type { LoadResult } from './load.ts'
import { loadOnce } from './load-once.ts'
import { readMachine, reportHead } from './machine.ts'
import { goalsSection, markdownPage, markdownTable } from './markdown.ts'
import { printProgress } from './print-progress.ts'
import { pin, planCores, type Running, startLoad, startUpstream } from './process.ts'
import { wholeBody } from './request-bodies.ts'
import { rotate } from './rotate.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { median, spread } from './spread.ts'
import type { Subject } from './subjects/subject.ts'
import { startSwitchyard } from './subjects/switchyard.ts'
import { addToTally, createTally, type Tally } from './tally.ts'
import { writeReport } from './write-report.ts'

/** `npm run bench:telemetry`: what traces and metrics cost a gateway that exports them to a collector. See bench/README.md. */
const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '9' }, seconds: { type: 'string', default: '4' } },
})
const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)]
if (!(rounds >= 1 && rounds <= 100 && seconds > 0 && seconds <= 60)) {
  printProgress('--rounds must be 1 to 100, and --seconds above 0 and at most 60')
  process.exit(2)
}

const WARM_UP_REQUESTS = 30_000
const CONNECTIONS = 128
/** Shorter runs write no report. */
const REPORT_ROUNDS_MIN = 7
/** The second one without telemetry shows how far two equal gateways differ in this run. */
const VARIANTS = [
  { name: 'off', samplePercent: null },
  { name: 'off, a second gateway', samplePercent: null },
  { name: 'traces of 10 % and metrics', samplePercent: 10 },
  { name: 'traces of 100 % and metrics', samplePercent: 100 },
] as const

const dir = makeBenchmarkDir()
await runBenchmark(dir, compare)

async function compare(): Promise<void> {
  const cores = planCores()
  if (cores === null) throw new Error('This benchmark needs two cores and `taskset`.')
  pin(process.pid, cores.upstream)
  const machine = readMachine(null)
  const collector = await startCollector()
  const upstream = await startUpstream(cores, dir)
  const load = startLoad('load.ts', cores, dir)
  const subjects: Measured[] = []
  for (const [index, { name, samplePercent }] of VARIANTS.entries()) {
    const gatewayDir = join(dir, `gateway-${index}`)
    mkdirSync(gatewayDir)
    const options = { upstreamOrigin: upstream.origin, cores, dir: gatewayDir, profile: false }
    const telemetry =
      samplePercent === null
        ? undefined
        : { endpoint: `${collector.origin}/${index}`, sample_percent: samplePercent, metrics_seconds: 5 }
    const subject = await startSwitchyard({ ...options, telemetry })
    const measured: Measured = { name, subject, rps: 0, tally: createTally(), results: [] }
    measured.rps = (await measure(load, measured, WARM_UP_REQUESTS)).rps
    printProgress(`${name}: warm`)
    subjects.push(measured)
  }
  for (let round = 0; round < rounds; round++) {
    for (const measured of rotate(subjects, round)) {
      const result = await measure(load, measured, Math.ceil(measured.rps * seconds))
      measured.results.push(result)
      printProgress(`${measured.name}: ${Math.round(result.rps)} req/s`)
    }
  }
  const findings: Finding[] = []
  for (const [index, { name, tally, subject }] of subjects.entries()) {
    findings.push(requestsFinding(name, tally), ...(await subject.check!(tally)))
    await subject.stop()
    const bytes = collector.bytesOf(index)
    const isOn = VARIANTS[index]!.samplePercent !== null
    findings.push({
      ok: bytes > 0 === isOn,
      text: `${name}: the collector received ${(bytes / 1e6).toFixed(1)} MB, ${(bytes / tally.sent).toFixed(0)} bytes a request`,
    })
  }
  await collector.close()
  const [off, ...others] = subjects
  const ratios = others.map(({ name, results }) => ({
    name,
    ratios: results.map((result, round) => result.rps / off!.results[round]!.rps),
  }))
  const report = markdownPage([
    reportHead('Telemetry', `npm run bench:telemetry -- --rounds ${rounds} --seconds ${seconds}`, machine, [
      `- cores: gateways ${cores.subject}, upstream and collector ${cores.upstream}, load ${cores.load}, PostgreSQL ${cores.database}`,
      `- rounds: ${rounds} of ${seconds} s each, in turns, ${CONNECTIONS} connections; each cell: median (lowest to highest)`,
    ]),
    markdownTable(
      ['', 'requests/s', 'p50 ms', 'p99 ms', 'CPU µs/request'],
      subjects.map(({ name, results }) => {
        const cell = (read: (result: LoadResult) => number | null, digits: number) => spread(results.map(read), digits)
        const cpuUs = ({ cpuShare, rps }: LoadResult) => (cpuShare === null ? null : (cpuShare * 1e6) / rps)
        return [name, cell(r => r.rps, 0), cell(r => r.p50Ms, 1), cell(r => r.p99Ms, 1), cell(cpuUs, 0)]
      }),
    ),
    markdownTable(
      ['throughput', '× the first gateway without telemetry'],
      ratios.map(({ name, ratios }) => [name, spread(ratios, 3)]),
    ),
    goalsSection([
      { goal: 'throughput with traces of 10 %, × off', value: median(ratios[1]!.ratios)!, limit: 0.95, isFloor: true },
    ]),
    checksSection(findings),
  ])
  process.stdout.write(report)
  if (rounds >= REPORT_ROUNDS_MIN) printProgress(`wrote ${writeReport('telemetry', report)}`)
  assertAllOk(findings)
}

type Measured = {
  name: string
  subject: Subject
  /** Throughput of the warm-up, which sets the number of requests per round. */
  rps: number
  tally: Tally
  results: LoadResult[]
}

async function measure(load: Running, { subject, tally }: Measured, requests: number): Promise<LoadResult> {
  const job = { headers: [subject.headers], body: wholeBody, connections: CONNECTIONS, requests }
  return addToTally(tally, await loadOnce(load, subject, job))
}

/** Starts a collector that accepts everything and answers with an empty protobuf message. The first part of the path names the sender. */
async function startCollector() {
  const bytes = new Map<string, number>()
  const server = createServer((request, response) => {
    const sender = request.url!.split('/')[1]!
    request.on('data', (chunk: Buffer) => bytes.set(sender, (bytes.get(sender) ?? 0) + chunk.length))
    request.on('end', () => response.setHeader('content-type', 'application/x-protobuf').end())
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    bytesOf: (sender: number) => bytes.get(String(sender)) ?? 0,
    close: () => new Promise(resolve => server.close(resolve)),
  }
}
