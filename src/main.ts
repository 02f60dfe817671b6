import type { AddressInfo } from 'node:net'
import packageJson from '../package.json' with { type: 'json' }
import { welcome } from './cli/welcome.ts'
import { collectStartupGarbage } from './collect-startup-garbage.ts'
import { type App, compose } from './compose.ts'
import type { Config } from './config.ts'
import { openDatabase } from './db/embedded.ts'
import { migrate } from './db/migrate.ts'
import { createPool } from './db/pool.ts'
import { acquireServerLock } from './db/server-lock.ts'
import { ensureFirstRun } from './first-run.ts'
import { createLog } from './log.ts'
import { loadMasterKey } from './market/master-key.ts'
import { gatherSupply } from './supply.ts'

/**
 * Runs the gateway until SIGTERM or SIGINT, then drains; resolves when everything it started has stopped.
 * Throws an Error with a sentence for the operator when it cannot start.
 */
export async function main(config: Config): Promise<void> {
  const stop = stopSignals()
  const log = createLog(config.log.level)
  // What was started last is stopped first.
  await using started = new AsyncDisposableStack()

  const database = await openDatabase({ databaseUrl: config.databaseUrl ?? undefined, dataDir: config.dataDir, log })
  started.defer(() => database.close())
  await migrate(database.connection)
  let lost = false
  if (database.embedded) {
    const lock = await acquireServerLock(database.connection, error => {
      log.error({ err: error }, 'the lock on the data directory was lost; stopping')
      lost = true
      stop.now()
    })
    started.defer(() => lock.release())
  }
  const supply = await gatherSupply(config)
  started.defer(() => supply.close())

  const app = await compose({
    config,
    connection: database.connection,
    masterKey: loadMasterKey({ given: config.masterKey ?? undefined, dataDir: config.dataDir }),
    offers: supply.offers,
    log,
    version: packageJson.version,
    isOnlyNode: database.embedded,
  })
  started.defer(() => app.close({ drainMs: config.server.drainSeconds * 1000, signal: stop.hurry }))
  collectStartupGarbage()
  await listen(app, config)

  const setup = createPool(database.connection, { max: 1, applicationName: 'switchyard first run' })
  const created = await ensureFirstRun({ pool: setup, config }).finally(() => setup.end())
  const { port } = app.server.server.address() as AddressInfo
  process.stdout.write(welcome({ config, port, created, findings: supply.findings }))

  await stop.requested
  log.info('stopping: running requests may finish')
  if (lost)
    throw new Error(
      'The PostgreSQL of the data directory went away. Start again: it is recovered, and nothing that was charged is lost.',
    )
}

async function listen(app: App, { server: { host, port } }: Config): Promise<void> {
  try {
    await app.server.listen({ host, port })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    throw new Error(
      `Port ${port} on ${host} is taken by another program. Choose another one: PORT=${port + 1} npm start`,
    )
  }
}

/** npm and the terminal both pass Ctrl-C on, so one keypress can arrive twice. */
const SAME_KEYPRESS_MS = 1_000

/** The first signal asks for a drain, another one cuts it short. */
function stopSignals() {
  const requested = Promise.withResolvers<void>()
  const hurry = new AbortController()
  let askedAtMs: number | undefined
  const now = () => {
    askedAtMs ??= performance.now()
    if (performance.now() - askedAtMs > SAME_KEYPRESS_MS) hurry.abort()
    requested.resolve()
  }
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.on(signal, now)
  return { requested: requested.promise, hurry: hurry.signal, now }
}
