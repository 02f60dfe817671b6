// Simulates with one planted bug: node sim/run-mutation.ts <id> <first seed> <seeds>. Prints an empty line per seed, then the finding as
// JSON.
import { readFileSync } from 'node:fs'
import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'
import { mutated, mutations } from './mutations.ts'
import type { Finding } from './prove.ts'

const [id, first, seeds] = process.argv.slice(2)
const mutation = mutations.find(candidate => candidate.id === id)
if (mutation === undefined) throw new Error(`no planted bug has the id ${id}`)
const url = new URL(`../${mutation.file}`, import.meta.url).href
const source = mutated(mutation, readFileSync(fileURLToPath(url), 'utf8'))
let isPlanted = false
registerHooks({
  load(wanted, context, nextLoad) {
    if (wanted !== url) return nextLoad(wanted, context)
    isPlanted = true
    return { format: 'module-typescript', source, shortCircuit: true }
  },
})

const { simulate } = await import('./simulate.ts')
if (!isPlanted) throw new Error(`${mutation.file} is not loaded by the simulation`)
Error.stackTraceLimit = 0
let seed = Number(first)
process.on('uncaughtException', error => end({ seed, rule: 'errors_are_handled', why: String(error) }))
for (const beyond = seed + Number(seeds); seed < beyond; seed++) {
  const { failure } = await simulate(seed)
  if (failure !== undefined) end({ seed, ...failure })
  // Shows the parent that this process makes progress.
  console.log()
  if (seed % 64 === 0) await new Promise(resolve => setImmediate(resolve))
}
end(undefined)

function end(finding: Finding | undefined): never {
  console.log(JSON.stringify({ finding }))
  process.exit()
}
