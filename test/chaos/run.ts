// What `npm run chaos` runs: every fault on real processes. See docs/chaos.md. Words after it choose the scenarios whose names have them.
import { type FailpointName, failpoints } from '../../src/failpoint.ts'
import { crashAt } from './crash-at-failpoint.ts'
import type { Scenario, Verdict } from './scenario.ts'
import { createWorld } from './world.ts'

const wanted = process.argv.slice(2)
const scenarios: Scenario[] = Object.keys(failpoints).map(name => crashAt(name as FailpointName))
const chosen = scenarios.filter(({ name }) => wanted.every(word => name.includes(word)))

const startedMs = performance.now()
const world = await createWorld({ durable: true })
const totals = { requests: 0, window: 0, problems: 0 }
try {
  const verdicts: Promise<void>[] = []
  for (const scenario of chosen) {
    console.log(scenario.name)
    try {
      const { problems, note, settled } = await scenario.run(world)
      verdicts.push(
        settled().then(
          verdict => report(scenario, note, { ...verdict, problems: [...problems, ...verdict.problems] }),
          (error: Error) => fail(scenario, error),
        ),
      )
    } catch (error) {
      fail(scenario, error as Error)
    }
  }
  await Promise.all(verdicts)
  await world.drain()
} finally {
  await world.close()
}
console.log(`${((performance.now() - startedMs) / 1000).toFixed(0)} s`, totals)

function report({ name }: Scenario, note: string, verdict: Verdict) {
  totals.requests += verdict.requests
  totals.window += verdict.window
  totals.problems += verdict.problems.length
  console.log(
    name.padEnd(40),
    note,
    verdict.requests,
    verdict.window,
    verdict.free,
    Math.round(verdict.convergedMs),
    verdict.problems.join('\n'),
  )
}
function fail({ name }: Scenario, error: Error) {
  totals.problems++
  console.log(name, 'FAILED', error.message)
}
