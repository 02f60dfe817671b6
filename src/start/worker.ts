import { errorMessage } from '../runtime/error-message.ts'
import { SHUTDOWN_SIGNALS } from './shutdown-signals.ts'
import type { WorkerTask } from './worker-task.ts'

// The program of one worker of `switchyard start --workers`: a node that takes its connections and its orders from src/start/primary.ts.

// Ctrl-C reaches every process of the terminal; the primary hears it too, and says what is to be done.
for (const signal of SHUTDOWN_SIGNALS) process.on(signal, () => {})

// Loaded after that, since it takes longer than all else at a start: until then Ctrl-C would end a worker, which the primary took for a failure.
const { createLog } = await import('../runtime/create-log.ts')
const { serve } = await import('./serve.ts')
const { connectToPrimary } = await import('./workers/connect-to-primary.ts')

const primary = connectToPrimary<WorkerTask>()
const { number, config, connection, masterKey, offers, isOnlyNode } = await primary.task
try {
  const { app, port } = await serve({
    config,
    connection,
    masterKey: Buffer.from(masterKey),
    offers,
    log: createLog(config.log.level).child({ worker: number }),
    isOnlyNode,
    metricsOfAll: primary.metricsOfAll,
  })
  primary.serving({ port, registry: app.metrics })
  await primary.drain
  await app.close({
    drainMs: config.server.drainSeconds * 1000,
    signal: primary.hurry,
    onDrained: primary.drained,
  })
} catch (error) {
  await primary.failed(errorMessage(error))
  process.exit(1)
}
// Its line to the primary would keep it alive.
process.exit()
