import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Descriptors, readDescriptors } from './descriptors.ts'
import type { LoadJob, LoadResult } from './load.ts'
import { describeMachine, readMachine } from './machine.ts'
import { goalRow, markdownTable } from './markdown.ts'
import type { PacedJob, PacedResult } from './paced-load.ts'
import { ask, pin, planCores, startServer, startWorker } from './process.ts'
import { readRssMb } from './process-usage.ts'
import { streamBody, wholeBody } from './request-bodies.ts'
import { makeBenchmarkDir, runBenchmark } from './run-benchmark.ts'
import { say } from './say.ts'
import type { StreamJob, StreamResult } from './stream-load.ts'
import type { Tally } from './subjects/subject.ts'
import { startSwitchyard } from './subjects/switchyard.ts'

/** `npm run bench:soak`: whether memory and descriptors stay where they are under hours of load. See bench/README.md. */
const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '20' }, load: { type: 'string', default: '0.6' } },
})
const minutes = Number(values.minutes)
const share = Number(values.load)
if (!(minutes > 0 && share > 0 && share < 1)) {
  say('--minutes must be above 0, --load between 0 and 1')
  process.exit(2)
}

const SAMPLE_EVERY_MS = 5_000
const WARM_UP_REQUESTS = 20_000
/** Of the load, in CPU time; the rest are whole answers. */
const STREAM_SHARE = 0.25
const CHUNKS_PER_S = 50
/** The first part of the time is not judged: caches fill and the heap finds its size. */
const SETTLING_SHARE = 0.2
/** Shorter runs are for looking at, not for keeping. */
const MINUTES_KEPT = 10
/** An idle connection to a model server is kept for 30 s at most. */
const REST_MS_MAX = 60_000
/** A connection to PostgreSQL more or less is no leak. */
const DESCRIPTORS_GROW_MAX = 5

const dir = makeBenchmarkDir()
await runBenchmark(dir, soak)

async function soak(): Promise<void> {
  const cores = planCores()
  if (cores !== null) pin(process.pid, cores.load)
  const machine = readMachine(cores)
  const worker = (script: string) => startWorker(script, [], { core: cores?.load, logFile: join(dir, `${script}.log`) })
  const upstream = await startServer('upstream.ts', [], { core: cores?.upstream, logFile: join(dir, 'upstream.log') })
  const [load, pacedLoad, streamLoad] = [worker('load.ts'), worker('paced-load.ts'), worker('stream-load.ts')]
  const gatewayDir = join(dir, 'switchyard')
  mkdirSync(gatewayDir)
  const subject = await startSwitchyard({ upstreamOrigin: upstream.origin, cores, dir: gatewayDir, profile: false })
  const { url, headers } = subject
  const pid = subject.pid!
  const ports = new Set([url, upstream.origin].map(it => Number(new URL(it).port)))
  const descriptorsNow = () => readDescriptors(pid, ports)
  const tally: Tally = { sent: 0, ok: 0, failed: 0 }
  const count = <Result extends Tally>(result: Result): Result => {
    tally.sent += result.sent
    tally.ok += result.ok
    tally.failed += result.failed
    return result
  }

  // How much it can do.
  const fullLoad: Omit<LoadJob, 'requests'> = { url, headers: [headers], pid, body: wholeBody, connections: 128 }
  const warm = count(await ask<LoadJob, LoadResult>(load, { ...fullLoad, requests: WARM_UP_REQUESTS }, 300_000))
  const requests = Math.ceil(warm.rps * Math.min(10, minutes * 3))
  const full = count(await ask<LoadJob, LoadResult>(load, { ...fullLoad, requests }, 300_000))
  subject.setDatabaseTurn?.('last')
  const streamJob: Omit<StreamJob, 'measureMs'> = {
    url,
    headers,
    pid,
    body: streamBody,
    streams: 100,
    rampMs: 2000,
    chunksPerStream: 100,
  }
  const some = count(await ask<StreamJob, StreamResult>(streamLoad, { ...streamJob, measureMs: 5000 }, 60_000))
  const ratePerS = Math.round(full.rps * share * (1 - STREAM_SHARE))
  const streams =
    full.cpuShare === null || some.cpuUsPerChunk === null
      ? 50
      : Math.max(1, Math.round((full.cpuShare * share * STREAM_SHARE * 1e6) / (some.cpuUsPerChunk * CHUNKS_PER_S)))
  say(`${Math.round(full.rps)} req/s at most; holding ${ratePerS} req/s and ${streams} streams for ${minutes} min`)

  // Holding it.
  const descriptorsBefore = await untilAtRest(descriptorsNow)
  const measureMs = minutes * 60_000
  const msMax = measureMs + 120_000
  const samples: Sample[] = []
  const startedMs = performance.now()
  const metricsUrl = new URL('/metrics', url)
  const takeSample = async () => {
    const minute = (performance.now() - startedMs) / 60_000
    const [heapMb, rssMb] = [await readHeapUsedMb(metricsUrl), readRssMb(pid)]
    samples.push({ minute, heapMb, rssMb, descriptors: descriptorsNow() })
    say(`${minute.toFixed(1)} min: heap ${heapMb.toFixed(0)} MB, RSS ${rssMb?.toFixed(0)} MB`)
  }
  const failure = Promise.withResolvers<never>()
  const sampling = setInterval(() => takeSample().catch(failure.reject), SAMPLE_EVERY_MS)
  const [whole, streamed] = await Promise.race([
    Promise.all([
      ask<PacedJob, PacedResult>(
        pacedLoad,
        { url, headers, pid, body: wholeBody, ratePerS, seconds: measureMs / 1000 },
        msMax,
      ),
      ask<StreamJob, StreamResult>(
        streamLoad,
        { ...streamJob, streams, measureMs: measureMs - streamJob.rampMs },
        msMax,
      ),
    ]),
    failure.promise,
  ])
  clearInterval(sampling)
  count(whole)
  count(streamed)
  const descriptorsAfter = await untilAtRest(descriptorsNow)

  const findings = [
    { ok: tally.failed === 0, text: `${tally.sent} requests sent, ${tally.ok} answered whole, ${tally.failed} failed` },
    ...(await subject.check!(tally)),
    { ok: whole.skipped === 0, text: `${whole.skipped} requests were not sent because 1,000 were under way` },
  ]
  await subject.stop()

  const trend = (read: (sample: Sample) => number | null) => trendOf(samples, read)
  const [heap, rss] = [trend(sample => sample.heapMb), trend(sample => sample.rssMb)]
  const descriptors = trend(({ descriptors: it }) => it && it.all - it.connections)
  const trendRow = (name: string, { level, perHour, grown }: Trend) => [
    name,
    level.toFixed(0),
    perHour.toFixed(1),
    grown.toFixed(1),
  ]
  const known = (trendOfIt: Trend | null): Trend[] => (trendOfIt === null ? [] : [trendOfIt])
  const text = [
    `# Soak of ${minutes} minutes, ${machine.startedAt.slice(0, 16).replace('T', ' ')} UTC`,
    [
      `- command: \`npm run bench:soak -- --minutes ${minutes} --load ${share}\`, commit ${machine.commit}`,
      ...describeMachine(machine),
      `- at most ${Math.round(full.rps)} whole answers/s at 128 connections; held: ${ratePerS} whole answers/s and ${streams} streams of ${CHUNKS_PER_S} chunks/s, together ${share} of the CPU time of that`,
      `- whole answers: p50 ${whole.p50Ms.toFixed(2)} ms, p99 ${whole.p99Ms.toFixed(2)} ms; chunks: p50 ${streamed.delayP50Ms.toFixed(2)} ms, p99 ${streamed.delayP99Ms.toFixed(2)} ms under way; ${whole.cpuShare === null ? 'CPU unknown' : `core used ${whole.cpuShare.toFixed(2)}`}`,
    ].join('\n'),
    `## Trends after the first ${SETTLING_SHARE * 100} %\n\nLines through the lowest sample of each of 20 spans of time: between two of its collections a heap only ever grows.\n\n${markdownTable(
      ['', 'level', 'slope per hour', 'grown in the time'],
      [
        ...known(heap).map(it => trendRow('heap used, MB', it)),
        ...known(rss).map(it => trendRow('RSS, MB', it)),
        ...known(descriptors).map(it => trendRow('descriptors besides open connections', it)),
      ],
    )}`,
    `## Samples\n\n${markdownTable(
      ['minute', 'heap used MB', 'RSS MB', 'open connections', 'descriptors besides'],
      thin(samples, 24).map(sample => [
        sample.minute.toFixed(1),
        sample.heapMb.toFixed(0),
        sample.rssMb?.toFixed(0) ?? '',
        sample.descriptors?.connections.toString() ?? '',
        sample.descriptors === null ? '' : (sample.descriptors.all - sample.descriptors.connections).toString(),
      ]),
    )}`,
    `## Goals\n\n${markdownTable(
      ['', 'measured', 'goal', ''],
      [
        ...known(heap).map(it => goalRow(flat('heap used grows by, MB', it, Math.max(5, it.level / 20)))),
        ...known(rss).map(it => goalRow(flat('RSS grows by, MB', it, Math.max(10, it.level / 20)))),
        ...known(descriptors).map(it =>
          goalRow(flat('descriptors besides open connections grow by', it, DESCRIPTORS_GROW_MAX)),
        ),
        ...(descriptorsBefore === null || descriptorsAfter === null
          ? []
          : [
              goalRow({
                goal: `descriptors at rest, ${descriptorsBefore} before the load, grow by`,
                value: descriptorsAfter - descriptorsBefore,
                limit: DESCRIPTORS_GROW_MAX,
                isFloor: false,
              }),
            ]),
      ],
    )}`,
    `## Checks\n\n${findings.map(({ ok, text }) => `- ${ok ? 'ok' : '**failed**'}: ${text}`).join('\n')}`,
  ].join('\n\n')
  process.stdout.write(`${text}\n`)
  if (minutes >= MINUTES_KEPT) {
    const file = `bench/results/${machine.startedAt.slice(0, 10)}-soak.md`
    writeFileSync(new URL(`../${file}`, import.meta.url), `${text}\n`)
    say(`wrote ${file}`)
  }
  const broken = findings.filter(finding => !finding.ok)
  if (broken.length > 0) throw new Error(broken.map(finding => finding.text).join('; '))
}

/** Figures that could not be read are null. */
type Sample = { minute: number; heapMb: number; rssMb: number | null; descriptors: Descriptors | null }

type Trend = {
  /** Mean of the line. */
  level: number
  perHour: number
  /** From the line's start to its end. */
  grown: number
}

/** A straight line (least squares) through the floors of the samples after the settling time; null when there are too few. */
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

/** The lowest point of each `size` in a row. */
function floorsOf(points: Point[], size: number): Point[] {
  return Array.from({ length: Math.floor(points.length / size) }, (_, i) =>
    points.slice(i * size, (i + 1) * size).reduce((lowest, point) => (point.y < lowest.y ? point : lowest)),
  )
}

function flat(goal: string, { grown }: Trend, limit: number) {
  return { goal, value: grown, limit: Math.round(limit), isFloor: false }
}

function thin<Item>(items: Item[], most: number): Item[] {
  const step = Math.ceil(items.length / most)
  return items.filter((_, i) => i % step === 0 || i === items.length - 1)
}

async function readHeapUsedMb(url: URL): Promise<number> {
  const text = await (await fetch(url)).text()
  const bytes = /^nodejs_heap_size_used_bytes (\S+)$/m.exec(text)?.[1]
  if (bytes === undefined) throw new Error(`${url.pathname} does not tell nodejs_heap_size_used_bytes`)
  return Number(bytes) / 1e6
}

/**
 * How many descriptors are open once no connection of the load is, nor one that was kept to the upstream, or when they should long be gone; null where
 * there is no /proc.
 */
async function untilAtRest(read: () => Descriptors | null): Promise<number | null> {
  const lateMs = performance.now() + REST_MS_MAX
  for (;;) {
    const now = read()
    if (now === null) return null
    if (now.connections === 0 || performance.now() > lateMs) return now.all
    await delay(500)
  }
}
