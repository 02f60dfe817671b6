// What `npm run chaos` runs: every fault, on real processes. docs/chaos.md says how to read it.
// node test/chaos/run.ts [word ...]: only the scenarios whose names have all of the words.
import { type FailpointName, failpoints } from '../../src/runtime/failpoint.ts'
import { breakConnections, networkFaults } from './break-connections.ts'
import { killPostgres, stopPostgres } from './break-postgres.ts'
import { crashesAt } from './crash-at-failpoint.ts'
import { killAtRandom } from './kill-at-random.ts'
import { lastDollarOverProcesses, lastDollarRepeated } from './last-dollar.ts'
import { loseDisk } from './lose-disk.ts'
import { pauseNode } from './pause-node.ts'
import { restartRolling } from './restart-rolling.ts'
import { retryFailpoints, retryOneKey } from './retry-one-key.ts'
import type { Scenario, Verdict } from './scenario.ts'
import { within } from './within.ts'
import { createWorld } from './world.ts'

/** Many times what the longest scenario takes: one that has not ended by then never does. */
const SCENARIO_MS = 15 * 60_000
/** For starting PostgreSQL, and for stopping it and every gateway. */
const END_MS = 3 * 60_000

const seed = Math.floor(Math.random() * 1_000_000)

const scenarios: readonly Scenario[] = [
  // Begun first: their nodes sleep while others are killed.
  pauseNode(60),
  pauseNode(100),
  pauseNode(100, 'settlement-built'),
  ...Object.keys(failpoints).flatMap(name => crashesAt(name as FailpointName)),
  ...retryFailpoints.map(name => retryOneKey(name)),
  killAtRandom({ kills: 10, workers: 8, seed }),
  killAtRandom({ kills: 10, workers: 24, seed: seed + 1 }),
  loseDisk(),
  ...Object.keys(networkFaults).map(fault => breakConnections(fault, 20)),
  restartRolling(),
  lastDollarOverProcesses(),
  killPostgres(),
  stopPostgres(20),
  lastDollarRepeated(200),
]

const words = process.argv.slice(2)
const chosen = scenarios.filter(({ name }) => words.every(word => name.includes(word)))
const startedMs = performance.now()
const failed = new Set<string>()
const totals = { requests: 0, window: 0, free: 0 }
const nameWidth = Math.max(...chosen.map(({ name }) => name.length))

console.log(row('scenario', 'requests', 'window', 'free', 'converged', 'what was seen'))
const world = await within(END_MS, 'there is a PostgreSQL', createWorld({ durable: true }))
try {
  let pending: Promise<void>[] = []
  for (const scenario of chosen) {
    if (scenario.alone === true) await Promise.all(pending.splice(0))
    const { verdict } = await begin(scenario)
    if (scenario.alone === true) await verdict
    else pending = [...pending, verdict]
  }
  await Promise.all(pending)
  await within(END_MS, 'every gateway stops', world.drain())
  await nothingIsHeld()
} catch (error) {
  fail('the end', (error as Error).message)
}
await within(END_MS, 'everything is cleaned up', world.close()).catch((error: Error) => fail('the end', error.message))

const seconds = ((performance.now() - startedMs) / 1000).toFixed(0)
console.log(
  `${chosen.filter(({ name }) => !failed.has(name)).length} of ${chosen.length} scenarios hold, ${failed.size} failed: ${totals.requests} requests, ${totals.window} charged without their last bytes, ${totals.free} free by a lost disk or a long sleep; ${seconds} s`,
)
// By force, since a scenario that failed may have left something under way that would keep this process for ever.
process.exit(failed.size === 0 && chosen.length > 0 ? 0 : 1)

/** Resolves when the fault is over; the verdict comes later. */
async function begin(scenario: Scenario): Promise<{ verdict: Promise<void> }> {
  try {
    const { problems, note, settled } = await within(SCENARIO_MS, 'it comes to its end', scenario.run(world))
    const verdict = within(SCENARIO_MS, 'its books converge', settled()).then(
      found => report(scenario.name, note, { ...found, problems: [...problems, ...found.problems] }),
      (error: Error) => fail(scenario.name, [...problems, error.message].join('\n')),
    )
    return { verdict }
  } catch (error) {
    fail(scenario.name, (error as Error).message)
    return { verdict: Promise.resolve() }
  }
}

/** Every gateway has ended as it should: then no money of anybody is held. */
async function nothingIsHeld(): Promise<void> {
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
  totals.window += verdict.window
  totals.free += verdict.free
  const converged = `${(verdict.convergedMs / 1000).toFixed(1)} s`
  console.log(row(name, String(verdict.requests), String(verdict.window), String(verdict.free), converged, note))
}

function fail(name: string, why: string): void {
  failed.add(name)
  console.log(`${name.padEnd(nameWidth)}  FAILED\n    ${why.replaceAll('\n', '\n    ')}`)
}

function row(name: string, requests: string, window: string, free: string, converged: string, note: string): string {
  const figures = [requests.padStart(8), window.padStart(6), free.padStart(4), converged.padStart(9)]
  return [name.padEnd(nameWidth), ...figures, note].join('  ')
}
