import { errorMessage } from '../base/runtime/error-message.ts'
import { SHUTDOWN_SIGNALS } from './shutdown-signals.ts'
import type { WorkerTask } from './worker-task.ts'

// Entry point of a worker process of `switchyard start --workers`: a node that gets its connections and its task
// from src/start/primary.ts.

// Ctrl-C and a hang-up reach every process of the terminal. The primary gets them too and decides for the workers, so
// a worker ignores them.
for (const signal of [...SHUTDOWN_SIGNALS, 'SIGHUP'] as const) process.on(signal, () => {})

// Imported after the handlers are set, because loading is the slowest part of a start. Ctrl-C while loading would
// otherwise end the worker, and the primary would report a failure.
const { isDatabaseAway } = await import('../base/db/database-fault.ts')
const { createLog } = await import('../base/runtime/create-log.ts')
const { serve } = await import('./serve.ts')
const { connectToPrimary } = await import('./workers/connect-to-primary.ts')

const primary = connectToPrimary<WorkerTask>()
const { MasterKeys } = await import('../base/secrets/master-keys.ts')
const { number, config, connection, desk, masterKeys, offers, file, isOnlyNode } = await primary.task
const keysOf = (task: Pick<WorkerTask, 'masterKeys'>) => task.masterKeys.map(key => Buffer.from(key))
const keyRing = new MasterKeys(keysOf({ masterKeys }))
try {
  const { app, port } = await serve({
    config,
    reloadConfig: primary.reload,
    connection,
    desk,
    masterKeys: keyRing,
    offers,
    log: createLog(config.log, isDatabaseAway).child({ worker: number }),
    isOnlyNode,
  })
  app.setFile(file)
  primary.onUpdate(task => {
    app.setOffers(task.offers)
    app.setFile(task.file)
    keyRing.replace(keysOf(task))
  })
  primary.serving({ port, registry: app.metrics })
  primary.announceClose.then(app.announceClose)
  await primary.drain
  await app.close({
    drainMs: config.server.drainSeconds * 1000,
    signal: primary.force,
    onDrained: primary.drained,
  })
} catch (error) {
  await primary.failed(errorMessage(error))
  process.exit(1)
}
// The open connection to the primary would keep the process alive.
process.exit()
