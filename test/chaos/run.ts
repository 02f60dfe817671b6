// `npm run chaos`: every fault, on real processes. docs/chaos.md explains the output.
// node test/chaos/run.ts [--seed N] [word ...]: only the scenarios with all of the words in their names. A run without words writes a report.
import { parseArgs } from 'node:util'
import { readMachine, reportHead } from '../../bench/machine.ts'
import { markdownPage } from '../../bench/markdown.ts'
import { writeReport } from '../../bench/write-report.ts'
import { breakConnections, networkFaults } from './break-connections.ts'
import { killPostgres, stopPostgres } from './break-postgres.ts'
import { copyDirectory } from './copy-directory.ts'
import { type CrashedFailpoint, crashes, crashesAt } from './crash-at-failpoint.ts'
import { paths, plainChat } from './customer.ts'
import { killAtRandom } from './kill-at-random.ts'
import { lastDollarOverProcesses, lastDollarRepeated } from './last-dollar.ts'
import { loseDisk } from './lose-disk.ts'
import { loseTail } from './lose-tail.ts'
import { pauseNode } from './pause-node.ts'
import { pauseQueue } from './pause-queue.ts'
import { restartRolling } from './restart-rolling.ts'
import { retryFailpoints, retryOneKey } from './retry-one-key.ts'
import type { Scenario, Verdict } from './scenario.ts'
import { within } from './within.ts'
import { createWorld } from './world.ts'

/** Much longer than the longest scenario takes. */
const SCENARIO_MS = 15 * 60_000
/** Time limit to start PostgreSQL, and to stop it and every gateway. */
const START_STOP_MS = 3 * 60_000

const { values: options, positionals: words } = parseArgs({
  options: { seed: { type: 'string' } },
  allowPositionals: true,
})
const seed = options.seed === undefined ? Math.floor(Math.random() * 1_000_000) : Number(options.seed)

const scenarios: readonly Scenario[] = [
  // First, so that their nodes sleep while other scenarios run.
  pauseNode(60),
  pauseNode(100),
  pauseNode(100, 'settlement-built'),
  ...Object.keys(crashes).flatMap(name => crashesAt(name as CrashedFailpoint)),
  ...retryFailpoints.flatMap((name, turn) => [plainChat, paths[turn + 1]!].map(path => retryOneKey(name, path))),
  killAtRandom({ kills: 10, workers: 8, seed }),
  killAtRandom({ kills: 10, workers: 24, seed: seed + 1 }),
  killAtRandom({ kills: 10, workers: 24, seed: seed + 2, settlement: 'commit' }),
  loseDisk(),
  copyDirectory(),
  ...Object.keys(networkFaults).map(fault => breakConnections(fault, 20)),
  restartRolling(),
  lastDollarOverProcesses(),
  killPostgres(),
  stopPostgres(20),
  // Several, because each may take as long as a scenario at most.
  ...[0, 1, 2, 3].map(more => loseTail({ times: 5, seed: seed + more })),
  lastDollarRepeated(200),
  pauseQueue(50, seed + 3),
]

const chosen = scenarios.filter(({ name }) => words.every(word => name.includes(word)))
const startedMs = performance.now()
const failed = new Set<string>()
const totals = { requests: 0, truncated: 0, free: 0 }
const output: string[] = []
const machine = readMachine(null)
const nameWidth = Math.max(...chosen.map(({ name }) => name.length))

print(row('scenario', 'requests', 'truncated', 'free', 'converged', 'observation'))
const world = await within(START_STOP_MS, 'PostgreSQL starts', createWorld({ durable: true }))
try {
  let pending: Promise<void>[] = []
  for (const scenario of chosen) {
    if (scenario.alone === true) await Promise.all(pending.splice(0))
    const { verdict } = await begin(scenario)
    if (scenario.alone === true) await verdict
    else pending = [...pending, verdict]
  }
  await Promise.all(pending)
  await within(START_STOP_MS, 'every gateway stops', world.drain())
  await checkNothingHeld()
} catch (error) {
  fail('final check', (error as Error).message)
}
await within(START_STOP_MS, 'processes and files are removed', world.close()).catch((error: Error) =>
  fail('clean-up', error.message),
)

const seconds = ((performance.now() - startedMs) / 1000).toFixed(0)
const passed = chosen.filter(({ name }) => !failed.has(name)).length
print(
  `${passed} of ${chosen.length} scenarios passed, ${failed.size} failed: ${totals.requests} requests, ${totals.truncated} truncated, ${totals.free} free after a lost disk or a long pause; ${seconds} s`,
)
if (words.length === 0) {
  const report = markdownPage([
    reportHead('Chaos', 'npm run chaos', machine, [
      '- faults, invariants and columns: [docs/chaos.md](../../docs/chaos.md)',
    ]),
    `\`\`\`\n${output.join('\n')}\n\`\`\``,
  ])
  console.log(`wrote ${writeReport('chaos', report)}`)
}
// Exit explicitly, since a failed scenario may leave work behind that keeps this process alive.
process.exit(failed.size === 0 && chosen.length > 0 ? 0 : 1)

/** Resolves when the fault is over. The verdict follows later. */
async function begin(scenario: Scenario): Promise<{ verdict: Promise<void> }> {
  try {
    const { problems, note, settled } = await within(SCENARIO_MS, 'the scenario ends', scenario.run(world))
    const verdict = within(SCENARIO_MS, 'the books converge', settled()).then(
      found => report(scenario.name, note, { ...found, problems: [...problems, ...found.problems] }),
      (error: Error) => fail(scenario.name, [...problems, error.message].join('\n')),
    )
    return { verdict }
  } catch (error) {
    fail(scenario.name, (error as Error).message)
    return { verdict: Promise.resolve() }
  }
}

/** After every gateway has drained, no money may be held. */
async function checkNothingHeld(): Promise<void> {
  const { rows } = await world.pool.query<{ leases: number; held: string }>(
    'SELECT (SELECT count(*)::integer FROM lease) AS leases, coalesce(sum(leased_nanos), 0)::text AS held FROM balance',
  )
  const { leases, held } = rows[0]!
  if (leases > 0 || held !== '0')
    throw new Error(`${leases} leases hold ${held} nano-USD although every gateway has ended`)
}

function report(name: string, note: string, verdict: Verdict): void {
  if (verdict.problems.length > 0) {
    fail(name, [note, ...verdict.problems].join('\n'))
    return
  }
  totals.requests += verdict.requests
  totals.truncated += verdict.truncated
  totals.free += verdict.free
  const converged = `${(verdict.convergedMs / 1000).toFixed(1)} s`
  print(row(name, String(verdict.requests), String(verdict.truncated), String(verdict.free), converged, note))
}

function fail(name: string, why: string): void {
  failed.add(name)
  print(`${name.padEnd(nameWidth)}  FAILED\n    ${why.replaceAll('\n', '\n    ')}`)
}

function print(text: string): void {
  output.push(text)
  console.log(text)
}

function row(name: string, requests: string, truncated: string, free: string, converged: string, note: string): string {
  const figures = [requests.padStart(8), truncated.padStart(9), free.padStart(4), converged.padStart(9)]
  return [name.padEnd(nameWidth), ...figures, note].join('  ')
}
