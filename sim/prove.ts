import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Mutation } from './mutations.ts'

export interface Finding {
  readonly seed: number
  /** The broken invariant. */
  readonly rule: string
  readonly why: string
}

/** Plants one bug in a separate process and simulates up to `seeds` seeds until one finds it. Undefined when the bug survives. */
export async function prove({ id }: Mutation, firstSeed: number, seeds: number): Promise<Finding | undefined> {
  const program = fileURLToPath(new URL('run-mutation.ts', import.meta.url))
  const child = spawn(process.execPath, [program, id, String(firstSeed), String(seeds)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  // A bug may cause an endless loop, in which no simulated time passes.
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
  if (isStuck) return { seed: firstSeed + lines.length - 1, rule: 'all_work_finishes', why: 'an endless loop' }
  if (code !== 0) throw new Error(`${id}: its process exited with ${code}`)
  return JSON.parse(lines.at(-1)!).finding
}

/** Much longer than the slowest seed takes. */
const SILENCE_MS = 60_000
