import type { Config } from '../config/config.ts'
import { connectionsNeeded } from '../db/few-connections.ts'
import { createLog } from '../runtime/create-log.ts'
import { announce } from './announce.ts'
import { prepare } from './prepare.ts'
import { serve } from './serve.ts'
import { shutdownSignals } from './shutdown-signals.ts'

/**
 * Runs the gateway in this process until SIGTERM, SIGINT or SIGHUP, then drains. Resolves when everything that it
 * started has stopped. Throws an Error with a message for the operator when it cannot start.
 */
export async function main(config: Config): Promise<void> {
  const stop = shutdownSignals()
  const log = createLog(config.log.level)
  // Disposed in the reverse order of the start.
  await using started = new AsyncDisposableStack()
  const connections = connectionsNeeded(config.postgres, 1)
  const foundation = started.use(await prepare({ config, log, connections, onLost: stop.now }))
  const { connection, embedded, masterKey, offers, findings } = foundation

  const { app, port } = await serve({ config, connection, masterKey, offers, log, isOnlyNode: embedded })
  stop.serving()
  started.defer(() => app.close({ drainMs: config.server.drainSeconds * 1000, signal: stop.force }))
  await announce({ config, connection, masterKey, port, findings })

  await stop.requested
  log.info('stopping: waiting for running requests')
  foundation.requireDatabase()
}
