import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { type DialectPair, pairs } from './dialects/pairs.ts'
import { dialectsReport, type MeasuredPair } from './dialects/report.ts'
import { assertAllOk, requestsFinding } from './finding.ts'
import type { LoadResult } from './load.ts'
import { loadOnce } from './load-once.ts'
import { prepareMachine } from './machine.ts'
import { printProgress } from './print-progress.ts'
import { ask, type Running, startLoad, startUpstream } from './process.ts'
import { rotate } from './rotate.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import type { StreamJob, StreamResult } from './stream-load.ts'
import type { Subject } from './subjects/subject.ts'
import { startSwitchyard } from './subjects/switchyard.ts'
import { addToTally, createTally } from './tally.ts'
import { writeReport } from './write-report.ts'

/** `npm run bench:dialects`: compares translated answers with those of chat. See bench/README.md. */
const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    'stream-rounds': { type: 'string', default: '3' },
    seconds: { type: 'string', default: '1.2' },
    'stream-seconds': { type: 'string', default: '2.5' },
    only: { type: 'string', default: '' },
    profile: { type: 'boolean', default: false },
  },
})
const [rounds, streamRounds] = [Number(values.rounds), Number(values['stream-rounds'])]
const [seconds, streamSeconds] = [Number(values.seconds), Number(values['stream-seconds'])]
const wanted = values.only.split(',')
/** The identity is what the others are compared with. */
const chosen = pairs.filter(({ name }, at) => at === 0 || wanted.some(part => name.includes(part)))
if (!(rounds >= 0 && streamRounds >= 0 && seconds > 0 && streamSeconds > 0 && rounds + streamRounds > 0)) {
  printProgress('--rounds and --stream-rounds must be at least 0, one of them more, and the seconds above 0')
  process.exit(2)
}

const CONNECTIONS = 32
const WARM_UP_REQUESTS = 4_000
/** Few enough that the gateway has time to spare: full cores read several chunks at once, which costs less. */
const STREAMS = 150
const CHUNKS_PER_STREAM = 100
/** Shorter runs write no report. */
const REPORT_ROUNDS_MIN = 5
const REPORT_STREAM_ROUNDS_MIN = 3

const { profile } = values
const dir = makeBenchmarkDir()
await runBenchmark(dir, compare, { profile })

async function compare(): Promise<void> {
  const { cores, machine } = prepareMachine()
  const upstream = await startUpstream(cores, dir)
  const load = startLoad('load.ts', cores, dir)
  const streamLoad = startLoad('stream-load.ts', cores, dir)
  const gatewayDir = join(dir, 'switchyard')
  mkdirSync(gatewayDir)
  const dialects = [...new Set(pairs.map(pair => pair.upstream))]
  const subject = await startSwitchyard({ upstreamOrigin: upstream.origin, cores, dir: gatewayDir, profile, dialects })
  const measured: MeasuredPair[] = chosen.map(pair => ({ ...pair, whole: [], streams: [] }))
  const tally = createTally()
  const measureWhole = async (pair: DialectPair, requests: number) =>
    addToTally(tally, await wholeRound(load, subject, pair, requests))
  const measureStreams = async (pair: DialectPair, shape: StreamShape) =>
    addToTally(tally, await streamRound(streamLoad, subject, pair, shape))

  const paces = new Map<MeasuredPair, number>()
  for (const pair of measured) {
    paces.set(pair, (await measureWhole(pair, WARM_UP_REQUESTS)).rps)
    if (streamRounds > 0) await measureStreams(pair, { streams: 20, rampMs: 300, measureMs: 1_000 })
  }
  for (let round = 0; round < rounds; round++) {
    for (const pair of rotate(measured, round)) {
      const result = await measureWhole(pair, Math.ceil(paces.get(pair)! * seconds))
      pair.whole.push(result)
      printProgress(`round ${round + 1}/${rounds}  ${pair.name}: ${Math.round(result.rps)} req/s`)
    }
  }
  // In streams, no process may wait for a database on its core.
  subject.setDatabasePriority?.('idle')
  for (let round = 0; round < streamRounds; round++) {
    for (const pair of rotate(measured, round)) {
      const shape = { streams: STREAMS, rampMs: 500, measureMs: streamSeconds * 1000 }
      const result = await measureStreams(pair, shape)
      pair.streams.push(result)
      printProgress(`streams ${round + 1}/${streamRounds}  ${pair.name}: ${result.cpuUsPerChunk?.toFixed(1)} µs/chunk`)
    }
  }
  subject.setDatabasePriority?.('normal')

  const findings = [requestsFinding('switchyard', tally), ...(await subject.check!(tally))]
  await subject.stop()
  const conditions = { connections: CONNECTIONS, seconds, rounds, streams: STREAMS, streamSeconds, streamRounds }
  const report = dialectsReport(machine, conditions, measured, findings)
  process.stdout.write(report)
  const isWhole = values.only === '' && rounds >= REPORT_ROUNDS_MIN && streamRounds >= REPORT_STREAM_ROUNDS_MIN
  if (isWhole && !profile) printProgress(`wrote ${writeReport('dialects', report)}`)
  assertAllOk(findings)
}

function wholeRound(load: Running, subject: Subject, pair: DialectPair, requests: number): Promise<LoadResult> {
  const { path, headers, wholeBody } = pair
  const at = { url: new URL(path, subject.url).href, pid: subject.pid, settled: subject.settled! }
  return loadOnce(load, at, {
    headers: [{ ...subject.headers, ...headers }],
    body: wholeBody,
    connections: CONNECTIONS,
    requests,
  })
}

type StreamShape = Pick<StreamJob, 'streams' | 'rampMs' | 'measureMs'>

function streamRound(load: Running, subject: Subject, pair: DialectPair, shape: StreamShape): Promise<StreamResult> {
  const { path, headers, streamBody: body, client: dialect } = pair
  const job: StreamJob = {
    url: new URL(path, subject.url).href,
    headers: { ...subject.headers, ...headers },
    ...{ body, dialect, pid: subject.pid, chunksPerStream: CHUNKS_PER_STREAM },
    ...shape,
  }
  return ask<StreamJob, StreamResult>(load, job, shape.measureMs + 40_000)
}
