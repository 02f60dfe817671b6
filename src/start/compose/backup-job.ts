import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { backUp } from '../../jobs/back-up.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'

/** Returns the job that makes the backups of the configuration. */
export function createBackupJob(
  { config, clock, log }: ComposeContext,
  { general }: Database,
): (signal: AbortSignal) => Promise<void> {
  const { backup: plan, configFile } = config
  if (plan === null) return async () => {}
  const run = (words: readonly string[], signal: AbortSignal) =>
    runCommand([...words, ...(configFile === null ? [] : ['--config', configFile])], signal)
  return signal => backUp({ sql: general, plan, run, clock, log }, signal)
}

// The launcher would look for missing packages first, which a running gateway does not lack.
const cliPath = fileURLToPath(new URL('../../cli.js', import.meta.url))

/** Runs a command with the environment and the directory of this process. Resolves with its last error text; null if it succeeds. */
async function runCommand(words: readonly string[], signal: AbortSignal): Promise<string | null> {
  const child = spawn(process.execPath, [cliPath, ...words], { stdio: ['ignore', 'ignore', 'pipe'] })
  const stop = () => child.kill('SIGTERM')
  signal.addEventListener('abort', stop)
  try {
    const [errors, [code, killedBy]] = await Promise.all([text(child.stderr), once(child, 'close')])
    if (code === 0) return null
    return errors.trim().split('\n').at(-1) || `it ended with ${killedBy ?? `the exit code ${code}`}`
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
