import { checksSection, type Finding } from './finding.ts'
import type { LoadResult } from './load.ts'
import { describePinning, type Machine, reportHead } from './machine.ts'
import { type ManyCustomers, manyCustomersGoals, manyCustomersTable } from './many-customers.ts'
import { type Goal, goalsSection, markdownPage, markdownTable } from './markdown.ts'
import { type Figure, median, spread } from './spread.ts'
import type { Calm } from './stolen-time.ts'
import type { StreamResult } from './stream-load.ts'
import { type SubjectName, subjectNames } from './subjects/subject.ts'

export const connectionCounts = [1, 32, 128] as const

/** The results of all rounds, in order. */
export type Measured = {
  /** Non-streamed answers. Keys have the form `relay c128`. */
  whole: Map<string, LoadResult[]>
  /** 500 streams of 100 chunks at 50 a second. */
  streams: Map<SubjectName, Calm<StreamResult>[]>
  /** 1,000 streams of 60 chunks at 20 a second. */
  manyStreams: Map<SubjectName, Calm<StreamResult>[]>
  /** Non-streamed answers at half of Switchyard's throughput at 128 connections. */
  halfLoad: Map<SubjectName, Calm<LoadResult>[]>
  manyCustomers: ManyCustomers | null
  findings: Finding[]
}

/** Medians over the rounds, with one entry per subject that ran. Unknown figures are null. */
export function toJson(measured: Measured): object {
  const whole = ran(measured).map(name => [
    name,
    Object.fromEntries(
      connectionCounts.map(connections => {
        const rounds = wholeRounds(measured, name, connections)
        return [
          `c${connections}`,
          {
            rps: round(median(rounds.map(r => r.rps)), 0),
            p50_ms: round(median(rounds.map(r => r.p50Ms)), 3),
            p99_ms: round(median(rounds.map(r => r.p99Ms)), 3),
          },
        ]
      }),
    ),
  ])
  const stream = [...measured.streams.keys()]
    .filter(name => name !== 'direct')
    .map(name => {
      const figures = streamFigures(measured.streams, name)
      return [
        name,
        {
          cpu_us_per_chunk: round(median(figures.cpuUsPerChunk), 2),
          added_p50_ms: round(median(figures.addedP50Ms), 3),
          added_p99_ms: round(median(figures.addedP99Ms), 3),
          rss_mb: round(median(figures.rssMb), 1),
        },
      ]
    })
  return { ...Object.fromEntries(whole), stream: Object.fromEntries(stream) }
}

/** The report: machine, tables with medians and spreads, goals and checks. */
export function toMarkdown(
  measured: Measured,
  machine: Machine,
  plan: {
    rounds: number
    secondsPerRound: number
    warmUpRequests: number
    streamRounds: number
    streamMeasureMs: number
  },
): string {
  const flags = process.argv.slice(2)
  const { rounds, secondsPerRound, warmUpRequests, streamRounds, streamMeasureMs } = plan
  return markdownPage([
    reportHead('Benchmark', `npm run bench${flags.length > 0 ? ` -- ${flags.join(' ')}` : ''}`, machine, [
      ...describePinning(machine),
      `- rounds: ${rounds} of ${secondsPerRound} s per cell, in turns, after ${warmUpRequests} warm-up requests per subject; ${streamRounds} of ${streamMeasureMs / 1000} s with streams`,
      '- each cell: median (lowest to highest round)',
    ]),
    ...wholeTables(measured),
    ...streamTable(measured.streams, '500 concurrent streams of 100 chunks at 50 chunks/s'),
    ...streamTable(measured.manyStreams, '1,000 concurrent streams of 60 chunks at 20 chunks/s'),
    ...halfLoadTable(measured),
    ...(measured.manyCustomers === null ? [] : [manyCustomersTable(measured.manyCustomers)]),
    ...goals(measured),
    checksSection(measured.findings),
  ])
}

function wholeTables(measured: Measured): string[] {
  if (measured.whole.size === 0) return []
  return connectionCounts.map(connections => {
    const floor = median(wholeRounds(measured, 'relay', connections).map(r => r.rps))
    const rows = ran(measured).map(name => {
      const rounds = wholeRounds(measured, name, connections)
      const rps = rounds.map(r => r.rps)
      const share = rounds.map(r => r.cpuShare)
      const perRequest = rounds.map(r => (r.cpuShare === null ? null : (r.cpuShare * 1e6) / r.rps))
      return [
        name,
        spread(rps, 0),
        ratio(median(rps), floor),
        spread(
          rounds.map(r => r.p50Ms),
          2,
        ),
        spread(
          rounds.map(r => r.p99Ms),
          2,
        ),
        spread(perRequest, 0),
        spread(share, 2),
      ]
    })
    return `## Non-streamed answers of 300 bytes, ${connections} ${connections === 1 ? 'connection' : 'connections'}\n\n${markdownTable(
      ['subject', 'requests/s', '× relay', 'p50 ms', 'p99 ms', 'CPU µs/request', 'core used'],
      rows,
    )}`
  })
}

function streamTable(streams: Map<SubjectName, Calm<StreamResult>[]>, title: string): string[] {
  if (streams.size === 0) return []
  const rows = [...streams].map(([name, rounds]) => {
    const figures = streamFigures(streams, name)
    return [
      name,
      spread(
        rounds.map(r => (r.chunks / r.measuredMs) * 1000),
        0,
      ),
      spread(figures.cpuUsPerChunk, 1),
      spread(
        rounds.map(r => r.cpuShare),
        2,
      ),
      spread(
        rounds.map(r => r.delayP50Ms),
        2,
      ),
      spread(
        rounds.map(r => r.delayP99Ms),
        2,
      ),
      name === 'direct' ? '' : spread(figures.addedP50Ms, 2),
      name === 'direct' ? '' : spread(figures.addedP99Ms, 2),
      spread(figures.rssMb, 0),
      spread(figures.kibPerStream, 1),
      ...stolenCells(rounds),
    ]
  })
  const head = [
    'subject',
    'chunks/s',
    'CPU µs/chunk',
    'core used',
    'p50 ms',
    'p99 ms',
    'added p50 ms',
    'added p99 ms',
    'RSS MB',
    'KiB/stream',
    ...STOLEN_COLUMNS,
  ]
  return [`## ${title}\n\n${markdownTable(head, rows)}`]
}

function halfLoadTable({ halfLoad }: Measured): string[] {
  if (halfLoad.size === 0) return []
  const rows = [...halfLoad].map(([name, rounds]) => [
    name,
    ...[rounds.map(r => r.rps), rounds.map(r => r.p50Ms), rounds.map(r => r.p99Ms), rounds.map(r => r.cpuShare)].map(
      (figures, column) => spread(figures, column === 0 ? 0 : 2),
    ),
    ...stolenCells(rounds),
  ])
  return [
    `## Non-streamed answers at half of Switchyard's throughput at 128 connections\n\n${markdownTable(
      ['subject', 'requests/s', 'p50 ms', 'p99 ms', 'core used', ...STOLEN_COLUMNS],
      rows,
    )}`,
  ]
}

const STOLEN_COLUMNS = ['stolen %', 'attempts']

/** The share of time that the host stole, and the number of measurements per round. */
function stolenCells(rounds: Calm<object>[]): string[] {
  const percent = rounds.map(r => (r.stolenShare === null ? null : r.stolenShare * 100))
  return [spread(percent, 2), rounds.map(r => r.tries).join(', ')]
}

function goals(measured: Measured): string[] {
  const rps = (name: SubjectName) => median(wholeRounds(measured, name, 128).map(r => r.rps))
  const p50 = (name: SubjectName) => median(wholeRounds(measured, name, 1).map(r => r.p50Ms))
  const halfLoadP99s = (name: SubjectName) => (measured.halfLoad.get(name) ?? []).map(r => r.p99Ms)
  const streams = (name: SubjectName) => streamFigures(measured.streams, name)
  const many = (name: SubjectName) => streamFigures(measured.manyStreams, name)
  const ours = 'switchyard'
  const atLeast = (limit: number, goal: string, value: Figure) => ({ goal, value, limit, isFloor: true })
  const atMost = (limit: number, goal: string, value: Figure) => ({ goal, value, limit, isFloor: false })
  const all: (Omit<Goal, 'value'> & { value: Figure })[] = [
    atLeast(0.6, 'throughput at 128 connections, × relay', quotient(rps(ours), rps('relay'))),
    atLeast(9, 'throughput at 128 connections, × Portkey', quotient(rps(ours), rps('portkey'))),
    atMost(0.3, 'added p50 at 1 connection over the relay, ms', difference(p50(ours), p50('relay'))),
    atMost(1.5, 'p99 at half load, × relay', medianQuotient(halfLoadP99s(ours), halfLoadP99s('relay'))),
    ...(measured.manyCustomers === null ? [] : manyCustomersGoals(measured.manyCustomers)),
    atMost(
      1.1,
      '500 streams: CPU per chunk, × relay',
      medianQuotient(streams(ours).cpuUsPerChunk, streams('relay').cpuUsPerChunk),
    ),
    atMost(
      1.1,
      '1,000 streams: CPU per chunk, × relay',
      medianQuotient(many(ours).cpuUsPerChunk, many('relay').cpuUsPerChunk),
    ),
    atMost(1.5, '1,000 streams: added p99, × relay', medianQuotient(many(ours).addedP99Ms, many('relay').addedP99Ms)),
    atMost(
      48,
      withRelay('1,000 streams: memory per stream, KiB', median(many('relay').kibPerStream)),
      median(many(ours).kibPerStream),
    ),
    atMost(250, withRelay('500 streams: RSS, MB', median(streams('relay').rssMb)), median(streams(ours).rssMb)),
  ]
  const known = all.flatMap(({ value, ...goal }) => (value === null ? [] : [{ ...goal, value }]))
  return known.length === 0 ? [] : [goalsSection(known)]
}

/** The median of the quotients of each round: what slows a round slows both subjects in it. */
function medianQuotient(ours: readonly Figure[], floors: readonly Figure[]): Figure {
  return median(ours.map((figure, round) => quotient(figure, floors[round] ?? null)))
}

/** Adds the relay's figure to an absolute goal, since it shows what the machine allows. */
function withRelay(goal: string, floor: Figure): string {
  return floor === null ? goal : `${goal} (the relay: ${floor.toFixed(2)})`
}

/** The added delay of a subject is its percentile minus that of `direct` in the same round. */
function streamFigures(streams: Map<SubjectName, StreamResult[]>, name: SubjectName) {
  const rounds = streams.get(name) ?? []
  const direct = streams.get('direct') ?? []
  return {
    cpuUsPerChunk: rounds.map(r => r.cpuUsPerChunk),
    addedP50Ms: rounds.map((r, i) => difference(r.delayP50Ms, direct[i]?.delayP50Ms ?? null)),
    addedP99Ms: rounds.map((r, i) => difference(r.delayP99Ms, direct[i]?.delayP99Ms ?? null)),
    rssMb: rounds.map(r => r.rssMb),
    // Idle means before the first round, since a round leaves garbage behind.
    kibPerStream: rounds.map(r => {
      const grownMb = difference(r.rssOpenMb, rounds[0]!.rssIdleMb)
      return grownMb === null ? null : (grownMb * 1e6) / 1024 / r.streams
    }),
  }
}

function ran(measured: Measured): SubjectName[] {
  return subjectNames.filter(name => measured.whole.has(`${name} c${connectionCounts[0]}`))
}

function wholeRounds(measured: Measured, name: SubjectName, connections: number): LoadResult[] {
  return measured.whole.get(`${name} c${connections}`) ?? []
}

function quotient(a: Figure, b: Figure): Figure {
  return a === null || b === null || b === 0 ? null : a / b
}

function difference(a: Figure, b: Figure): Figure {
  return a === null || b === null ? null : a - b
}

function ratio(a: Figure, b: Figure): string {
  return quotient(a, b)?.toFixed(2) ?? ''
}

function round(figure: Figure, digits: number): Figure {
  return figure === null ? null : Number(figure.toFixed(digits))
}
