import type { Logger } from 'pino'
import { isDatabaseAway } from '../base/db/database-fault.ts'
import { createLog } from '../base/runtime/create-log.ts'
import type { Config } from './config/config.ts'
import { serviceManager } from './service-manager.ts'
import { type ShutdownSignals, shutdownSignals } from './shutdown-signals.ts'

export interface RunContext {
  readonly log: Logger
  readonly stop: ShutdownSignals
  /** From now on, SIGHUP calls this. */
  onReload(reload: () => Promise<unknown>): void
  /** The start is complete. */
  ready(): void
}

/**
 * Calls `run` with a log and the shutdown requests of the operator, and logs each step of the shutdown. `run` resolves
 * when everything that it started has stopped.
 */
export async function runUntilStopped(
  config: Pick<Config, 'log' | 'server' | 'systemd'>,
  run: (context: RunContext) => Promise<void>,
): Promise<void> {
  const { drainDelaySeconds } = config.server
  const stop = shutdownSignals(drainDelaySeconds * 1000)
  const log = createLog(config.log, isDatabaseAway)
  // A closed terminal sends it too, which changes nothing.
  let reload: (() => Promise<unknown>) | undefined
  let reloads = 0
  const manager = serviceManager(config.systemd, log)
  process.on('SIGHUP', () => {
    if (reload === undefined) return log.warn('SIGHUP is ignored until the start is complete')
    reloads++
    manager.reloading()
    reload()
      .catch(error => log.error({ err: error }, 'SIGHUP: the configuration was not read'))
      .finally(() => {
        reloads--
        if (reloads === 0) manager.ready()
      })
  })
  stop.requested.then(() => {
    manager.stopping()
    if (!stop.isDelayed) return
    log.info(
      `/readyz is 503, and requests are served for ${drainDelaySeconds} s; a further signal begins the drain now`,
    )
  })
  stop.draining.then(() => {
    const what = stop.isServing ? 'draining: running requests may finish' : 'stopping before the start is complete'
    log.info(`${what}; Ctrl-C or SIGTERM once more to stop now`)
  })
  stop.force.addEventListener('abort', () => log.warn('stopping now: running requests are cut off'))
  await run({
    log,
    stop,
    onReload(listener) {
      reload = listener
    },
    ready: manager.ready,
  })
  log.info('stopped')
}
