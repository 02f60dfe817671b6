import { describePinning, type Machine, reportHead } from '../machine.ts'
import { goalsSection, markdownPage, markdownTable } from '../markdown.ts'
import type { Behaviour } from './behaviour.ts'

/** What the bystander and the gateway were like in one measurement. */
export interface Bystander {
  readonly meanMs: number
  readonly p99Ms: number
  /** The p99 of requests on new connections. */
  readonly freshP99Ms: number
  /** Requests without an answer, and requests that were not sent because too many waited. */
  readonly failed: number
  /** The longest time for which the gateway's event loop was held; null if the gateway did not answer. */
  readonly stallMs: number | null
  readonly rssMaxMb: number
  /** CPU time of the gateway per second; null without /proc. */
  readonly coreShare: number | null
}

export interface Row {
  readonly behaviour: Behaviour
  /** The last measurement without a hostile party. */
  readonly quiet: Bystander
  readonly attacked: Bystander
  /** How often the hostile party, or the customer of the hostile server, met each event. */
  readonly events: Record<string, number>
  /** Whether the gateway ended and was started again. */
  readonly hasCrashed: boolean
}

export interface HostileRun {
  readonly machine: Machine
  readonly rows: readonly Row[]
  /** The conditions, one line each. */
  readonly conditions: readonly string[]
  readonly rssBeforeMb: number
  readonly rssAfterMb: number
}

const P99_MS_MAX = 100
const FRESH_P99_MS_MAX = 250
/** The machine that the heap limit of the run stands for. */
const RSS_MB_MAX = 1_000
const EVENTS_SHOWN = 5
/** How much more memory the gateway may keep after everything has ended. */
const KEPT_MB_MAX = 200

export function hostileReport({ machine, rows, conditions, rssBeforeMb, rssAfterMb }: HostileRun): string {
  const of = (...parties: Behaviour['party'][]) => rows.filter(({ behaviour }) => parties.includes(behaviour.party))
  const highest = (read: (row: Row) => number) => Math.max(0, ...rows.map(read))
  const sum = (read: (row: Row) => number) => rows.reduce((total, row) => total + read(row), 0)
  return markdownPage([
    reportHead('Hostile servers, greedy customers, strangers', 'npm run bench:hostile', machine, [
      ...describePinning(machine),
      ...conditions,
    ]),
    goalsSection([
      goal(
        'highest p99 of the bystander, ms',
        highest(row => row.attacked.p99Ms),
        P99_MS_MAX,
      ),
      goal('behaviours with a p99 above 100 ms', rows.filter(row => row.attacked.p99Ms > P99_MS_MAX).length, 0),
      goal(
        'highest p99 on new connections, ms',
        highest(row => row.attacked.freshP99Ms),
        FRESH_P99_MS_MAX,
      ),
      goal(
        'failed requests of the bystander',
        sum(row => row.attacked.failed),
        0,
      ),
      goal(
        'ends of the gateway',
        sum(row => Number(row.hasCrashed)),
        0,
      ),
      goal(
        'highest RSS, MB',
        highest(row => row.attacked.rssMaxMb),
        RSS_MB_MAX,
      ),
      goal('RSS at the end above RSS at the start, MB', rssAfterMb - rssBeforeMb, KEPT_MB_MAX),
    ]),
    section('Servers', of('server')),
    section('Customers', of('customer')),
    section('Strangers', of('stranger')),
    `## Slowest\n\n${table([...rows].sort((a, b) => b.attacked.p99Ms - a.attacked.p99Ms).slice(0, 10))}`,
  ])
}

function goal(name: string, value: number, limit: number) {
  return { goal: name, value, limit, isFloor: false }
}

function section(title: string, rows: readonly Row[]): string {
  return `## ${title}: ${rows.length}\n\n${table(rows)}`
}

function table(rows: readonly Row[]): string {
  const head = [
    'behaviour',
    'mean ms',
    'without',
    'p99 ms',
    'without',
    'p99 new ms',
    'failed',
    'stall ms',
    'cores',
    'RSS MB',
    'events',
  ]
  return markdownTable(head, rows.map(cells))
}

function cells({ behaviour, quiet, attacked, events, hasCrashed }: Row): string[] {
  const ms = (value: number) => value.toFixed(1)
  const counts = Object.entries(events).sort(([, a], [, b]) => b - a)
  const shown = counts.slice(0, EVENTS_SHOWN).map(([event, count]) => `${event}: ${count}`)
  return [
    `\`${behaviour.name}\`: ${behaviour.what.replaceAll('|', '\\|')}`,
    ms(attacked.meanMs),
    ms(quiet.meanMs),
    attacked.p99Ms > P99_MS_MAX ? `**${ms(attacked.p99Ms)}**` : ms(attacked.p99Ms),
    ms(quiet.p99Ms),
    attacked.freshP99Ms > FRESH_P99_MS_MAX ? `**${ms(attacked.freshP99Ms)}**` : ms(attacked.freshP99Ms),
    String(attacked.failed),
    attacked.stallMs === null ? '' : attacked.stallMs.toFixed(0),
    attacked.coreShare?.toFixed(2) ?? '',
    attacked.rssMaxMb.toFixed(0),
    [...(hasCrashed ? ['**the gateway ended**'] : []), ...shown].join(', '),
  ]
}
