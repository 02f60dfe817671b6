import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { turnAutogroupOff } from './autogroup.ts'
import { stopAll } from './process.ts'
import { say } from './say.ts'

/** A new directory for the data and the logs of a benchmark. */
export function makeBenchmarkDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'switchyard-bench-'))
  // PostgreSQL does not run as root: started by root, it runs as another user, who must be able to reach its files.
  chmodSync(dir, 0o755)
  return dir
}

/**
 * Does the work and leaves the process: with 0, with 1 after a failure, which it tells, with 130 or 143 after a signal. Whatever was started
 * is ended by its pid, and the directory is removed unless there is a profile in it.
 */
export async function runBenchmark(dir: string, work: () => Promise<void>, { profile = false } = {}): Promise<void> {
  turnAutogroupOff()
  let isLeaving = false
  const leave = async (exitCode: number) => {
    isLeaving = true
    await stopAll()
    if (profile) say(`profile and logs: ${dir}`)
    else rmSync(dir, { recursive: true, force: true })
    process.exit(exitCode)
  }
  process.once('SIGINT', () => leave(130))
  process.once('SIGTERM', () => leave(143))
  try {
    await work()
    await leave(0)
  } catch (error) {
    // On the way out after Ctrl-C, everything that was waited for fails; that is no news.
    if (isLeaving) return
    say(error instanceof Error ? (error.stack ?? error.message) : String(error))
    await leave(1)
  }
}
