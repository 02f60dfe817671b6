import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { EXIT_BUSY } from '../../base/runtime/exit-codes.ts'
import type { CommandFailure } from '../../jobs/command-job.ts'
import type { Config } from '../config/config.ts'

/** Returns a function that runs a command of this program with the configuration file of this process. See `runCommand`. */
export function commandRunner({ configFile }: Pick<Config, 'configFile'>): typeof runCommand {
  return (words, signal) => runCommand([...words, ...(configFile === null ? [] : ['--config', configFile])], signal)
}

// The launcher would look for missing packages first, which a running gateway does not lack.
const cliPath = fileURLToPath(new URL('../../cli.js', import.meta.url))

/** Runs a command with the environment and directory of this process. Resolves with null when it succeeded. */
async function runCommand(words: readonly string[], signal: AbortSignal): Promise<CommandFailure | null> {
  const child = spawn(process.execPath, [cliPath, ...words], { stdio: ['ignore', 'ignore', 'pipe'] })
  const stop = () => child.kill('SIGTERM')
  signal.addEventListener('abort', stop)
  if (signal.aborted) stop()
  try {
    const [errors, [code, killedBy]] = await Promise.all([text(child.stderr), once(child, 'close')])
    if (code === 0) return null
    const reason = errors.trim().split('\n').at(-1) || `it ended with ${killedBy ?? `the exit code ${code}`}`
    return { reason, isBusy: code === EXIT_BUSY }
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
