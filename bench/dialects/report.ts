import { checksSection, type Finding } from '../finding.ts'
import type { LoadResult } from '../load.ts'
import { describePinning, type Machine, reportHead } from '../machine.ts'
import { type Goal, goalsSection, markdownPage, markdownTable } from '../markdown.ts'
import { type Figure, median, spread } from '../spread.ts'
import type { StreamResult } from '../stream-load.ts'
import type { DialectPair } from './pairs.ts'

/** The rounds of a pair. Those of all pairs with the same index ran one after the other. */
export type MeasuredPair = DialectPair & { whole: LoadResult[]; streams: StreamResult[] }

export type DialectConditions = {
  connections: number
  seconds: number
  rounds: number
  streams: number
  streamSeconds: number
  streamRounds: number
}

/** At least this ratio of requests/s to the identity. */
const WHOLE_RATIO_MIN = 0.7
/** At most this ratio of CPU time per chunk to the identity. */
const STREAM_RATIO_MAX = 1.5

/** @param measured begins with the identity */
export function dialectsReport(
  machine: Machine,
  { connections, seconds, rounds, streams, streamSeconds, streamRounds }: DialectConditions,
  measured: readonly MeasuredPair[],
  findings: readonly Finding[],
): string {
  const [identity, ...others] = measured as [MeasuredPair, ...MeasuredPair[]]
  const wholeRatios = (pair: MeasuredPair) => ratios(pair.whole, identity.whole, ({ rps }) => rps)
  const streamRatios = (pair: MeasuredPair) =>
    ratios(pair.streams, identity.streams, ({ cpuUsPerChunk }) => cpuUsPerChunk)
  return markdownPage([
    reportHead('Translated answers', 'npm run bench:dialects', machine, [
      ...describePinning(machine),
      `- whole answers: ${rounds} rounds of ${seconds} s each, ${connections} connections; each pair of dialects in turns, at the same gateway`,
      `- streams: ${streamRounds} rounds of ${streamSeconds} s each, ${streams} concurrent streams of 100 chunks at 50 chunks/s`,
      '- each cell: median (lowest to highest); × identity: ratio to chat to chat in the same round',
    ]),
    `## Whole answers\n\n${markdownTable(
      ['client to upstream', 'requests/s', '× identity', 'CPU µs/request', 'core used', 'p50 ms', 'p99 ms'],
      measured.map(pair => {
        const cell = (read: (result: LoadResult) => Figure, digits: number) => spread(pair.whole.map(read), digits)
        return [
          pair.name,
          cell(r => r.rps, 0),
          spread(wholeRatios(pair), 2),
          cell(r => (r.cpuShare === null ? null : (r.cpuShare * 1e6) / r.rps), 0),
          ...[cell(r => r.cpuShare, 2), cell(r => r.p50Ms, 1), cell(r => r.p99Ms, 1)],
        ]
      }),
    )}`,
    `## Streams\n\n${markdownTable(
      ['client to upstream', 'CPU µs/chunk', '× identity', 'core used', 'p50 ms', 'p99 ms'],
      measured.map(pair => {
        const cell = (read: (result: StreamResult) => Figure, digits: number) => spread(pair.streams.map(read), digits)
        return [
          pair.name,
          cell(r => r.cpuUsPerChunk, 1),
          spread(streamRatios(pair), 2),
          ...[cell(r => r.cpuShare, 2), cell(r => r.delayP50Ms, 2), cell(r => r.delayP99Ms, 1)],
        ]
      }),
    )}`,
    goalsSection([
      ...others.flatMap(pair =>
        goal(`whole answers, ${pair.name}: requests/s, × identity`, wholeRatios(pair), WHOLE_RATIO_MIN, true),
      ),
      ...others.flatMap(pair =>
        goal(`streams, ${pair.name}: CPU time per chunk, × identity`, streamRatios(pair), STREAM_RATIO_MAX, false),
      ),
    ]),
    checksSection(findings),
  ])
}

function ratios<Result>(results: Result[], base: Result[], read: (result: Result) => Figure): Figure[] {
  return results.map((result, round) => {
    const [value, compared] = [read(result), read(base[round]!)]
    return value === null || compared === null ? null : value / compared
  })
}

/** None without figures. */
function goal(name: string, figures: Figure[], limit: number, isFloor: boolean): Goal[] {
  const value = median(figures)
  return value === null ? [] : [{ goal: name, value, limit, isFloor }]
}
