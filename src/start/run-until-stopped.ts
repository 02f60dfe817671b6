import type { Logger } from 'pino'
import type { Config } from '../config/config.ts'
import { createLog } from '../runtime/create-log.ts'
import { type ShutdownSignals, shutdownSignals } from './shutdown-signals.ts'

export interface RunContext {
  readonly log: Logger
  readonly stop: ShutdownSignals
}

/**
 * Calls `run` with a log and the shutdown requests of the operator, and logs each step of the shutdown. `run` resolves
 * when everything that it started has stopped.
 */
export async function runUntilStopped(
  config: Pick<Config, 'log'>,
  run: (context: RunContext) => Promise<void>,
): Promise<void> {
  const stop = shutdownSignals()
  const log = createLog(config.log)
  stop.requested.then(() => {
    const what = stop.isServing ? 'draining: running requests may finish' : 'stopping before the start is complete'
    log.info(`${what}; Ctrl-C or SIGTERM once more to stop now`)
  })
  stop.force.addEventListener('abort', () => log.warn('stopping now: running requests are cut off'))
  await run({ log, stop })
  log.info('stopped')
}
