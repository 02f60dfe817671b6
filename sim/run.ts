// Runs the money code on simulated time, disks, networks and a simulated database: `npm run sim -- --seeds 1000 --from 1`.
import { parseArgs } from 'node:util'
import { simulate } from './simulate.ts'

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '1000' },
    from: { type: 'string', default: '1' },
    seed: { type: 'string' },
    trace: { type: 'boolean', default: false },
  },
})

const first = Number(values.seed ?? values.from)
const last = values.seed === undefined ? first + Number(values.seeds) - 1 : first
const startedMs = performance.now()
const sums = new Map<string, number>()
let failures = 0
for (let seed = first; seed <= last; seed++) {
  const { failure, counts, fingerprint, events } = await simulate(
    seed,
    values.trace ? line => console.log(line) : undefined,
  )
  for (const [name, count] of [...Object.entries(counts), ['events', events] as const])
    sums.set(name, (sums.get(name) ?? 0) + count)
  if (failure !== undefined) {
    failures++
    console.log(`seed ${seed}: ${failure.rule} at ${failure.atMs.toFixed(3)} ms: ${failure.why}  [${fingerprint}]`)
  }
  if (seed % 64 === 0) await new Promise(resolve => setImmediate(resolve))
}
const elapsedS = ((performance.now() - startedMs) / 1000).toFixed(1)
console.log(
  `${last - first + 1} seeds, ${failures} failures, ${elapsedS} s: ${[...sums].map(([name, count]) => `${count} ${name}`).join(', ')}`,
)
if (failures > 0) console.log('Replay one, event by event: npm run sim -- --seed <seed> --trace')
process.exitCode = failures > 0 ? 1 : 0
