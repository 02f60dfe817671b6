import type { Config } from '../config/config.ts'
import { connectionsNeeded } from '../db/few-connections.ts'
import { createLog } from '../runtime/create-log.ts'
import { announce } from './announce.ts'
import { prepare } from './prepare.ts'
import { shutdownSignals } from './shutdown-signals.ts'
import type { WorkerTask } from './worker-task.ts'
import { startWorkers } from './workers/start-workers.ts'

/**
 * Runs `config.server.workers` nodes in processes of their own behind one port, until SIGTERM or SIGINT; then all of them drain.
 * What a gateway needs once is here: the embedded PostgreSQL, the demo upstream, the look round, the first run, the welcome.
 * Throws an Error with a sentence for the operator when it cannot start, or when its workers cannot be kept alive.
 */
export async function primary(config: Config): Promise<void> {
  const stop = shutdownSignals()
  const log = createLog(config.log.level)
  // What was started last is stopped first.
  await using started = new AsyncDisposableStack()
  const connections = connectionsNeeded(config.postgres, config.server.workers)
  const foundation = started.use(
    await prepare({
      config,
      log,
      connections,
      // PostgreSQL keeps three for superusers; the rest are for whoever looks at the database.
      settings: { max_connections: String(Math.max(100, connections + 16)) },
      onLost: stop.now,
    }),
  )
  const { connection, embedded, masterKey, offers, findings } = foundation

  const workers = startWorkers<WorkerTask>({
    count: config.server.workers,
    program: new URL('./worker.ts', import.meta.url),
    task: ({ number, first }) => ({ number, config, connection, masterKey, offers, isOnlyNode: embedded && first }),
    drainMs: config.server.drainSeconds * 1000,
    log,
  })
  started.defer(async () => {
    await workers.stop(stop.hurry)
  })
  const port = await workers.port
  stop.serving()
  await announce({ config, connection, masterKey, port, findings })

  await Promise.race([stop.requested, workers.broken])
  log.info('stopping: running requests may finish')
  const unwell = await workers.stop(stop.hurry)
  foundation.requireDatabase()
  if (unwell > 0) throw new Error(`${unwell} of the workers did not end well. What they said is above.`)
}
