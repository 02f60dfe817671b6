// `npm run chaos:patroni`: fails over a Patroni cluster under load. docs/high-availability.md explains the output.
// run.sh [--times N] [--asynchronous] [word ...]: N failovers of each fault with one of the words in its name. Started by run.sh.
import { execFileSync } from 'node:child_process'
import { existsSync, readdirSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { readMachine, reportHead } from '../../../bench/machine.ts'
import { markdownPage, markdownTable } from '../../../bench/markdown.ts'
import { writeReport } from '../../../bench/write-report.ts'
import { migrateAll } from '../postgres.ts'
import { verdictOn } from '../verdict.ts'
import { createGatewayWorld } from '../world.ts'
import { createCluster, TIMES } from './cluster.ts'
import { type FailOver, failOver, GATEWAY_MS_MAX } from './fail-over.ts'
import { faults } from './faults.ts'
import { startHaproxy } from './haproxy.ts'
import { startProbe } from './primary-probe.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { times: { type: 'string', default: '4' }, asynchronous: { type: 'boolean', default: false } },
})
const isSynchronous = !values.asynchronous
const chosen = faults.filter(({ name }) => positionals.length === 0 || positionals.some(word => name.includes(word)))

requireSoundPatroni()
const machine = readMachine(null)
const { cluster, login } = await createCluster({ isSynchronous, programs: debianPrograms() }, ['switchyard', 'probe'])
const viaHaproxy = await startHaproxy(cluster.hosts, { ...login, database: 'switchyard' })
await migrateAll(viaHaproxy)
const world = await createGatewayWorld(viaHaproxy, async () => viaHaproxy)
// One after the other: together with the cluster, they would take longer than their time limits.
for (const name of ['a', 'b']) await world.running(name)
const probe = await startProbe(cluster.hosts, { ...login, database: 'probe' }, await cluster.whole())

const problems: string[] = []
const rows = new Map<string, FailOver[]>()
const turns = Array.from({ length: Number(values.times) }, () => chosen).flat()
try {
  for (const [seed, fault] of turns.entries()) {
    const result = await failOver({ world, cluster, probe, seed }, fault)
    rows.set(fault.name, [...(rows.get(fault.name) ?? []), result])
    console.log(`${fault.name}: ${cellsOf([result]).join(', ')}`)
  }
} catch (error) {
  problems.push((error as Error).message)
}
await probe.stop()
await world.drain()

const table: string[][] = []
for (const [name, results] of rows) {
  const { problems: found } = await verdictOn(
    world,
    results.flatMap(({ customers }) => customers),
  )
  problems.push(...found.map(problem => `${name}: ${problem}`))
  for (const { lost, refusedMs, withoutPrimaryMs, lostCommits } of results) {
    problems.push(...lost.map(request => `${name}: ${request}`))
    if (refusedMs > withoutPrimaryMs + GATEWAY_MS_MAX) problems.push(`${name}: refused for ${seconds(refusedMs)} s`)
    if (isSynchronous && lostCommits > 0) problems.push(`${name}: ${lostCommits} commits were lost`)
  }
  table.push([name, ...cellsOf(results), found.length === 0 ? 'exact' : `${found.length} problems`])
}
const head = ['the primary is', 'failovers', 'requests', 'refused', 'broken', 'lost']
const figures = ['without primary, s', '503, s', 'commits lost', 'books']
const report = markdownPage([
  reportHead('Failovers of Patroni', `npm run chaos:patroni${isSynchronous ? '' : ' -- --asynchronous'}`, machine, [
    `- Patroni: ${versionOf('patroni')}; PostgreSQL: ${versionOf(`${debianPrograms()}/postgres`)}; ${JSON.stringify(TIMES)}`,
    '- faults and columns: [docs/high-availability.md](../../docs/high-availability.md)',
  ]),
  markdownTable([...head, ...figures], table),
  ...(problems.length === 0 ? [] : [problems.join('\n')]),
])
console.log(report)
if (positionals.length === 0 && isSynchronous) console.log(`wrote ${writeReport('patroni', report)}`)
// The processes of the cluster end with this one: see run.sh.
process.exit(problems.length === 0 ? 0 : 1)

function cellsOf(results: readonly FailOver[]): string[] {
  const sum = (count: (result: FailOver) => number) => String(results.reduce((total, each) => total + count(each), 0))
  const range = (msOf: (result: FailOver) => number) => {
    const sorted = results.map(msOf).sort((one, other) => one - other)
    return [...new Set([sorted[0]!, sorted.at(-1)!].map(seconds))].join(' to ')
  }
  return [
    String(results.length),
    sum(({ requests }) => requests),
    sum(({ refused }) => refused.length),
    sum(({ broken }) => broken.length),
    sum(({ lost }) => lost.length),
    range(({ withoutPrimaryMs }) => withoutPrimaryMs),
    range(({ refusedMs }) => refusedMs),
    sum(({ lostCommits }) => lostCommits),
  ]
}

/** Debian 12 has 3.0.2, whose paused primary overwrites the key of its successor (patroni pull requests 2689 and 2783). */
function requireSoundPatroni(): void {
  const [major = 0, minor = 0] = (/[\d.]+/.exec(versionOf('patroni'))?.[0] ?? '').split('.').map(Number)
  if (major > 3 || (major === 3 && minor >= 1)) return
  throw new Error('This Patroni loses commits: docs/high-availability.md#which-patroni names a newer one.')
}

function seconds(ms: number): string {
  return (ms / 1_000).toFixed(1)
}

/** The newest PostgreSQL that Debian's packages have installed. */
function debianPrograms(): string {
  const root = '/usr/lib/postgresql'
  const majors = existsSync(root) ? readdirSync(root).filter(major => existsSync(`${root}/${major}/bin/postgres`)) : []
  const newest = majors.map(Number).sort((one, other) => other - one)[0]
  if (newest === undefined) throw new Error('Install what docs/high-availability.md#try-it names.')
  return `${root}/${newest}/bin`
}

function versionOf(program: string): string {
  return execFileSync(program, ['--version'], { encoding: 'utf8' }).trim()
}
