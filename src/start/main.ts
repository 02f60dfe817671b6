import { connectionsNeeded } from '../base/db/few-connections.ts'
import { announce } from './announce.ts'
import { announceAddress } from './announce-address.ts'
import type { Config } from './config/config.ts'
import { prepare } from './prepare.ts'
import { type RunContext, runUntilStopped } from './run-until-stopped.ts'
import { serve } from './serve.ts'
import { startMetrics } from './start-metrics.ts'

/**
 * Runs the gateway in this process until SIGTERM or SIGINT, then drains. Resolves when everything that it
 * started has stopped. Throws an Error with a message for the operator when it cannot start.
 *
 * @param readAgain reads the configuration again; throws ConfigError
 */
export function main(config: Config, readAgain: () => Config): Promise<void> {
  return runUntilStopped(config, context => run(config, readAgain, context))
}

async function run(config: Config, readAgain: () => Config, { log, stop, onReload, ready }: RunContext): Promise<void> {
  // Disposed in the reverse order of the start.
  await using started = new AsyncDisposableStack()
  const connections = connectionsNeeded(config.postgres, 1)
  const foundation = started.use(
    await prepare({ config, readAgain, log, connections, isStopping: () => stop.isRequested, onLost: stop.now }),
  )
  if (foundation === undefined) return
  const { connection, desk, owner, embedded, masterKeys, offers, findings } = foundation

  const { app, port } = await serve({
    config,
    reloadConfig: foundation.reload,
    connection,
    desk,
    masterKeys,
    offers,
    log,
    isOnlyNode: embedded,
  })
  stop.serving()
  foundation.watchOffers(app.setOffers)
  foundation.watchConfig(app.setFile)
  foundation.watchMasterKeys(keys => masterKeys.replace(keys))
  onReload(foundation.reload)
  started.defer(await startMetrics(config, () => app.metrics.metrics(), log))
  started.defer(() => app.close({ drainMs: config.server.drainSeconds * 1000, signal: stop.force }))
  started.defer(announceAddress(config, port, log))
  if (!stop.isRequested) await announce({ config, owner, masterKeys, port, findings })
  if (!stop.isRequested) ready()

  await stop.requested
  app.announceClose()
  await stop.draining
  foundation.requireDatabase()
}
