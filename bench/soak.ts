import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Descriptors, readDescriptors } from './descriptors.ts'
import { assertAllOk, checksSection, type Finding, requestsFinding } from './finding.ts'
import type { LoadJob, LoadResult } from './load.ts'
import { describePinning, type Machine, prepareMachine, reportHead } from './machine.ts'
import { type Goal, goalsSection, markdownPage, markdownTable } from './markdown.ts'
import type { PacedJob, PacedResult } from './paced-load.ts'
import { printProgress } from './print-progress.ts'
import { ask, type Running, startLoad, startUpstream } from './process.ts'
import { readRssMb } from './process-usage.ts'
import { streamBody, wholeBody } from './request-bodies.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import type { StreamJob, StreamResult } from './stream-load.ts'
import type { Subject } from './subjects/subject.ts'
import { startSwitchyard } from './subjects/switchyard.ts'
import { addToTally, createTally, type Tally } from './tally.ts'
import { writeReport } from './write-report.ts'

/** `npm run bench:soak`: checks that memory and descriptors stay constant under a long load. See bench/README.md. */
const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '20' }, load: { type: 'string', default: '0.6' } },
})
const minutes = Number(values.minutes)
const loadShare = Number(values.load)
if (!(minutes > 0 && loadShare > 0 && loadShare < 1)) {
  printProgress('--minutes must be above 0, and --load above 0 and below 1')
  process.exit(2)
}

const SAMPLE_EVERY_MS = 5_000
const WARM_UP_REQUESTS = 20_000
/** Share of the load, in CPU time, that is streams; the rest is non-streamed answers. */
const STREAM_SHARE = 0.25
const CHUNKS_PER_S = 50
const streamShape = { body: streamBody, rampMs: 2000, chunksPerStream: 100 }
/** This first part of the time is ignored: caches fill, and the heap grows to its working size. */
const SETTLING_SHARE = 0.2
/** Shorter runs write no report. */
const REPORT_MINUTES_MIN = 10
/** Idle connections to a model server are kept for up to 30 s. */
const REST_MS_MAX = 60_000
/** Allows for a few more connections to PostgreSQL. */
const DESCRIPTOR_GROWTH_MAX = 5

const dir = makeBenchmarkDir()
await runBenchmark(dir, soak)

async function soak(): Promise<void> {
  const { cores, machine } = prepareMachine()
  const upstream = await startUpstream(cores, dir)
  const workers: Workers = {
    load: startLoad('load.ts', cores, dir),
    pacedLoad: startLoad('paced-load.ts', cores, dir),
    streamLoad: startLoad('stream-load.ts', cores, dir),
  }
  const gatewayDir = join(dir, 'switchyard')
  mkdirSync(gatewayDir)
  const subject = await startSwitchyard({ upstreamOrigin: upstream.origin, cores, dir: gatewayDir, profile: false })
  const ports = new Set([subject.url, upstream.origin].map(url => Number(new URL(url).port)))
  const countDescriptors = () => readDescriptors(subject.pid!, ports)
  const tally = createTally()

  const rates = await chooseRates(subject, workers, tally)
  const descriptorsBefore = await descriptorsAtRest(countDescriptors)
  const held = await holdLoad(subject, workers, rates, tally, countDescriptors)
  const descriptorsAfter = await descriptorsAtRest(countDescriptors)

  const findings = [
    requestsFinding('switchyard', tally),
    ...(await subject.check!(tally)),
    {
      ok: held.whole.skipped === 0,
      text: `${held.whole.skipped} requests were not sent because 1,000 were in flight`,
    },
  ]
  await subject.stop()
  const report = soakReport(machine, rates, held, [descriptorsBefore, descriptorsAfter], findings)
  process.stdout.write(report)
  if (minutes >= REPORT_MINUTES_MIN) printProgress(`wrote ${writeReport('soak', report)}`)
  assertAllOk(findings)
}

type Workers = { load: Running; pacedLoad: Running; streamLoad: Running }

/** The load to hold, and the throughput from which it was computed. */
type Rates = { maxPerS: number; ratePerS: number; streams: number }

/** Measures the throughput at 128 connections and the cost of a chunk, and computes the load to hold. */
async function chooseRates({ url, headers, pid, ...subject }: Subject, workers: Workers, tally: Tally): Promise<Rates> {
  const fullLoad: Omit<LoadJob, 'requests'> = { url, headers: [headers], pid, body: wholeBody, connections: 128 }
  const send = async (requests: number) =>
    addToTally(tally, await ask<LoadJob, LoadResult>(workers.load, { ...fullLoad, requests }, 300_000))
  const warm = await send(WARM_UP_REQUESTS)
  const full = await send(Math.ceil(warm.rps * Math.min(10, minutes * 3)))
  subject.setDatabasePriority?.('idle')
  const job: StreamJob = { url, headers, pid, ...streamShape, streams: 100, measureMs: 5000 }
  const some = addToTally(tally, await ask<StreamJob, StreamResult>(workers.streamLoad, job, 60_000))
  const ratePerS = Math.round(full.rps * loadShare * (1 - STREAM_SHARE))
  const streams =
    full.cpuShare === null || some.cpuUsPerChunk === null
      ? 50
      : Math.max(1, Math.round((full.cpuShare * loadShare * STREAM_SHARE * 1e6) / (some.cpuUsPerChunk * CHUNKS_PER_S)))
  printProgress(
    `maximum ${Math.round(full.rps)} req/s; holding ${ratePerS} req/s and ${streams} streams for ${minutes} min`,
  )
  return { maxPerS: full.rps, ratePerS, streams }
}

type Held = { whole: PacedResult; streamed: StreamResult; samples: Sample[] }

/** Holds the load for the whole time and samples memory and descriptors. */
async function holdLoad(
  { url, headers, pid, metricsUrl }: Subject,
  workers: Workers,
  { ratePerS, streams }: Rates,
  tally: Tally,
  countDescriptors: () => Descriptors | null,
): Promise<Held> {
  const measureMs = minutes * 60_000
  const msMax = measureMs + 120_000
  const samples: Sample[] = []
  const startedMs = performance.now()
  const takeSample = async () => {
    const minute = (performance.now() - startedMs) / 60_000
    const [heapMb, rssMb] = [await readHeapUsedMb(metricsUrl!), readRssMb(pid!)]
    samples.push({ minute, heapMb, rssMb, descriptors: countDescriptors() })
    printProgress(`${minute.toFixed(1)} min: heap ${heapMb.toFixed(0)} MB, RSS ${rssMb?.toFixed(0)} MB`)
  }
  const failure = Promise.withResolvers<never>()
  const sampling = setInterval(() => takeSample().catch(failure.reject), SAMPLE_EVERY_MS)
  const pacedJob = { url, headers, pid, body: wholeBody, ratePerS, seconds: measureMs / 1000 }
  const streamJob = { url, headers, pid, ...streamShape, streams, measureMs: measureMs - streamShape.rampMs }
  const [whole, streamed] = await Promise.race([
    Promise.all([
      ask<PacedJob, PacedResult>(workers.pacedLoad, pacedJob, msMax),
      ask<StreamJob, StreamResult>(workers.streamLoad, streamJob, msMax),
    ]),
    failure.promise,
  ])
  clearInterval(sampling)
  addToTally(tally, whole)
  addToTally(tally, streamed)
  return { whole, streamed, samples }
}

/** Figures that could not be read are null. */
type Sample = { minute: number; heapMb: number; rssMb: number | null; descriptors: Descriptors | null }

function soakReport(
  machine: Machine,
  { maxPerS, ratePerS, streams }: Rates,
  { whole, streamed, samples }: Held,
  [descriptorsBefore, descriptorsAfter]: [number | null, number | null],
  findings: Finding[],
): string {
  const measures: { name: string; trend: Trend | null; growthMax: (level: number) => number }[] = [
    { name: 'heap used, MB', trend: trendOf(samples, it => it.heapMb), growthMax: level => Math.max(5, level / 20) },
    { name: 'RSS, MB', trend: trendOf(samples, it => it.rssMb), growthMax: level => Math.max(10, level / 20) },
    {
      name: 'descriptors without connections',
      trend: trendOf(samples, it => otherDescriptors(it.descriptors)),
      growthMax: () => DESCRIPTOR_GROWTH_MAX,
    },
  ]
  const known = measures.flatMap(({ trend, ...measure }) => (trend === null ? [] : [{ ...measure, trend }]))
  const goals: Goal[] = known.map(({ name, trend, growthMax }) => ({
    goal: `growth of ${name}`,
    value: trend.grown,
    limit: Math.round(growthMax(trend.level)),
    isFloor: false,
  }))
  if (descriptorsBefore !== null && descriptorsAfter !== null) {
    goals.push({
      goal: `growth of descriptors at rest, from ${descriptorsBefore} before the load`,
      value: descriptorsAfter - descriptorsBefore,
      limit: DESCRIPTOR_GROWTH_MAX,
      isFloor: false,
    })
  }
  const command = `npm run bench:soak -- --minutes ${minutes} --load ${loadShare}`
  const ms = (value: number) => `${value.toFixed(2)} ms`
  return markdownPage([
    reportHead(`Soak of ${minutes} minutes`, command, machine, [
      ...describePinning(machine),
      `- maximum: ${Math.round(maxPerS)} non-streamed answers/s at 128 connections`,
      `- load: ${ratePerS} non-streamed answers/s and ${streams} streams of ${CHUNKS_PER_S} chunks/s, together ${loadShare} of the CPU time at the maximum`,
      `- non-streamed answers: p50 ${ms(whole.p50Ms)}, p99 ${ms(whole.p99Ms)}`,
      `- delay of chunks: p50 ${ms(streamed.delayP50Ms)}, p99 ${ms(streamed.delayP99Ms)}`,
      `- core used: ${whole.cpuShare === null ? 'unknown' : whole.cpuShare.toFixed(2)}`,
    ]),
    `## Trends after the first ${SETTLING_SHARE * 100} %\n\nEach trend is a line through the lowest samples of 20 equal time spans, since a heap always grows between collections.\n\n${markdownTable(
      ['', 'level', 'slope per hour', 'growth'],
      known.map(({ name, trend: { level, perHour, grown } }) => [
        name,
        level.toFixed(0),
        perHour.toFixed(1),
        grown.toFixed(1),
      ]),
    )}`,
    `## Samples\n\n${markdownTable(
      ['minute', 'heap used MB', 'RSS MB', 'open connections', 'other descriptors'],
      thin(samples, 24).map(({ minute, heapMb, rssMb, descriptors }) => [
        minute.toFixed(1),
        heapMb.toFixed(0),
        rssMb?.toFixed(0) ?? '',
        descriptors?.connections.toString() ?? '',
        otherDescriptors(descriptors)?.toString() ?? '',
      ]),
    )}`,
    goalsSection(goals),
    checksSection(findings),
  ])
}

function otherDescriptors(descriptors: Descriptors | null): number | null {
  return descriptors && descriptors.all - descriptors.connections
}

type Trend = {
  /** Mean of the line. */
  level: number
  perHour: number
  /** Difference between the end and the start of the line. */
  grown: number
}

/** A straight line (least squares) through the lowest samples after the settling time; null when there are too few. */
function trendOf(samples: Sample[], read: (sample: Sample) => number | null): Trend | null {
  const points = samples.flatMap(sample => {
    const y = read(sample)
    return y === null || sample.minute < minutes * SETTLING_SHARE ? [] : [{ x: sample.minute, y }]
  })
  const floors = floorsOf(points, Math.max(2, Math.ceil(points.length / 20)))
  if (floors.length < 3) return null
  const mean = (of: (point: Point) => number) => floors.reduce((sum, point) => sum + of(point), 0) / floors.length
  const [x, y] = [mean(point => point.x), mean(point => point.y)]
  const perMinute = mean(point => (point.x - x) * (point.y - y)) / mean(point => (point.x - x) ** 2)
  return { level: y, perHour: perMinute * 60, grown: perMinute * (floors.at(-1)!.x - floors[0]!.x) }
}

type Point = { x: number; y: number }

/** The lowest point of each group of `size` consecutive points. */
function floorsOf(points: Point[], size: number): Point[] {
  return Array.from({ length: Math.floor(points.length / size) }, (_, i) =>
    points.slice(i * size, (i + 1) * size).reduce((lowest, point) => (point.y < lowest.y ? point : lowest)),
  )
}

/** At most about `most` items, evenly spaced, with the last one. */
function thin<Item>(items: Item[], most: number): Item[] {
  const step = Math.ceil(items.length / most)
  return items.filter((_, i) => i % step === 0 || i === items.length - 1)
}

async function readHeapUsedMb(url: string): Promise<number> {
  const text = await (await fetch(url)).text()
  const bytes = /^nodejs_heap_size_used_bytes (\S+)$/m.exec(text)?.[1]
  if (bytes === undefined) throw new Error(`${url} has no nodejs_heap_size_used_bytes`)
  return Number(bytes) / 1e6
}

/** Waits until all connections of the load and to the upstream are closed, or for a minute. Returns the number of open descriptors; null without /proc. */
async function descriptorsAtRest(count: () => Descriptors | null): Promise<number | null> {
  const lateMs = performance.now() + REST_MS_MAX
  for (;;) {
    const now = count()
    if (now === null) return null
    if (now.connections === 0 || performance.now() > lateMs) return now.all
    await delay(500)
  }
}
