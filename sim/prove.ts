import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Mutation } from './mutations.ts'

export interface Finding {
  readonly seed: number
  /** The invariant that was broken. */
  readonly rule: string
  readonly why: string
}

/** Plants one bug in a process of its own and simulates until it is found, for `seeds` seeds at most. Undefined when it survived. */
export async function prove({ id }: Mutation, firstSeed: number, seeds: number): Promise<Finding | undefined> {
  const program = fileURLToPath(new URL('run-mutation.ts', import.meta.url))
  const child = spawn(process.execPath, [program, id, String(firstSeed), String(seeds)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  // A bug may be a loop that never ends, and no time of a run passes in it.
  let isStuck = false
  const stuck = () => {
    isStuck = true
    child.kill('SIGKILL')
  }
  let watchdog = setTimeout(stuck, SILENCE_MS)
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text
    clearTimeout(watchdog)
    watchdog = setTimeout(stuck, SILENCE_MS)
  })
  const [code] = await once(child, 'close')
  clearTimeout(watchdog)
  const lines = output.trimEnd().split('\n')
  if (isStuck) return { seed: firstSeed + lines.length - 1, rule: 'everything_ends', why: 'a loop without end' }
  if (code !== 0) throw new Error(`${id} could not be tried`)
  return JSON.parse(lines.at(-1)!).finding
}

/** Many times what the slowest seed takes. */
const SILENCE_MS = 60_000
