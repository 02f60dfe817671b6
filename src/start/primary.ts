import { connectionsNeeded } from '../base/db/few-connections.ts'
import { announce } from './announce.ts'
import { announceAddress } from './announce-address.ts'
import type { Config } from './config/config.ts'
import { prepare } from './prepare.ts'
import { type RunContext, runUntilStopped } from './run-until-stopped.ts'
import { startMetrics } from './start-metrics.ts'
import type { WorkerTask } from './worker-task.ts'
import { startWorkers } from './workers/start-workers.ts'

/**
 * Runs `config.server.workers` nodes behind one port, each in its own process, until SIGTERM or
 * SIGINT; then all of them drain. The primary runs the parts that a gateway has only once: embedded
 * PostgreSQL, demo upstream, detection, first run and welcome text. Throws an Error with a message for the
 * operator when it cannot start, or when its workers cannot be kept alive.
 *
 * @param readAgain reads the configuration again; throws ConfigError
 */
export function primary(config: Config, readAgain: () => Config): Promise<void> {
  return runUntilStopped(config, context => run(config, readAgain, context))
}

async function run(config: Config, readAgain: () => Config, { log, stop, onReload, ready }: RunContext): Promise<void> {
  // Disposed in the reverse order of the start.
  await using started = new AsyncDisposableStack()
  const connections = connectionsNeeded(config.postgres, config.server.workers)
  const foundation = started.use(
    await prepare({
      config,
      readAgain,
      log,
      connections,
      // PostgreSQL reserves three of the 16 extra connections for superusers. Operators use the others to inspect the
      // database.
      settings: { max_connections: String(Math.max(100, connections + 16)) },
      isStopping: () => stop.isRequested,
      onLost: stop.now,
    }),
  )
  if (foundation === undefined) return
  const { connection, desk, owner, embedded, masterKeys, findings } = foundation
  let { offers } = foundation
  let file: WorkerTask['file'] = { written: config.written }
  // Each worker decides which of them seals, as the database says.
  let keyRing: readonly Buffer[] = masterKeys.all

  const workers = startWorkers<WorkerTask>({
    count: config.server.workers,
    program: new URL('./worker.ts', import.meta.url),
    task: ({ number, first }) => ({
      number,
      config,
      connection,
      desk,
      masterKeys: keyRing,
      offers,
      file,
      isOnlyNode: embedded && first,
    }),
    drainMs: config.server.drainSeconds * 1000,
    reload: foundation.reload,
    log,
  })
  started.defer(await startMetrics(config, () => workers.metricsText(), log))
  started.defer(async () => {
    await workers.stop(stop.force)
  })
  const port = await workers.port
  foundation.watchOffers(changed => {
    offers = changed
    workers.updateTasks()
  })
  foundation.watchConfig(changed => {
    file = { written: changed.written }
    workers.updateTasks()
  })
  foundation.watchMasterKeys(keys => {
    // Those of another installation. The workers check more: a rotation changes which key must be among them.
    if (!keys.some(key => keyRing.some(known => known.equals(key)))) return false
    keyRing = keys
    workers.updateTasks()
    return true
  })
  onReload(foundation.reload)
  stop.serving()
  started.defer(announceAddress(config, port, log))
  if (!stop.isRequested) await announce({ config, owner, masterKeys, port, findings })
  if (!stop.isRequested) ready()

  await Promise.race([stop.requested, workers.broken])
  workers.announceClose()
  await Promise.race([stop.draining, workers.broken])
  const failed = await workers.stop(stop.force)
  foundation.requireDatabase()
  if (failed > 0)
    throw new Error(`${failed} of the workers did not shut down cleanly. Their errors are in the log above.`)
}
