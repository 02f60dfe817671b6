import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { turnAutogroupOff } from './autogroup.ts'
import { printProgress } from './print-progress.ts'
import { stopAll } from './process.ts'

/** Creates a directory for the data and the logs of a benchmark. */
export function makeBenchmarkDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'switchyard-bench-'))
  // Started by root, PostgreSQL runs as another user, which must be able to access its files.
  chmodSync(dir, 0o755)
  return dir
}

/**
 * Runs `work` and exits: with 0, with 1 after printing a failure, or with 130 or 143 after a signal. Stops all started processes by pid. Removes
 * the directory unless it contains a profile.
 */
export async function runBenchmark(dir: string, work: () => Promise<void>, { profile = false } = {}): Promise<void> {
  turnAutogroupOff()
  let isLeaving = false
  const leave = async (exitCode: number) => {
    isLeaving = true
    await stopAll()
    if (profile) printProgress(`profile and logs: ${dir}`)
    else rmSync(dir, { recursive: true, force: true })
    process.exit(exitCode)
  }
  process.once('SIGINT', () => leave(130))
  process.once('SIGTERM', () => leave(143))
  try {
    await work()
    await leave(0)
  } catch (error) {
    // After Ctrl-C all pending work fails. Do not report that.
    if (isLeaving) return
    printProgress(error instanceof Error ? (error.stack ?? error.message) : String(error))
    await leave(1)
  }
}
