import type { FastifyBaseLogger } from 'fastify'
import type { Config } from '../config/config.ts'
import { type Connection, openDatabase } from '../db/embedded.ts'
import { warnOfFewConnections } from '../db/few-connections.ts'
import { migrate, migrationsDir } from '../db/migrate.ts'
import { createPool, type Sql } from '../db/pool.ts'
import { acquireServerLock } from '../db/server-lock.ts'
import type { Offer } from '../domain/offer.ts'
import { loadMasterKey } from '../secrets/master-key.ts'
import { noteMasterKey } from '../secrets/master-key-mark.ts'
import type { Finding } from '../supply/detection/detect-local.ts'
import { gatherSupply } from './gather-supply.ts'

/** What a gateway stands on, made once at its start however many processes then serve. Disposing stops it, PostgreSQL last. */
export interface Foundation extends AsyncDisposable {
  readonly connection: Connection
  /** PostgreSQL lives in the data directory, and the server lock proves that no other gateway uses it. */
  readonly embedded: boolean
  readonly masterKey: Buffer
  /** Local and cloud offers: configured, detected and the demo. */
  readonly offers: readonly Offer[]
  /** What was found by looking round. */
  readonly findings: readonly Finding[]
  /** Throws a sentence for the operator when the embedded PostgreSQL went away meanwhile. */
  requireDatabase(): void
}

export interface PrepareOptions {
  readonly config: Config
  readonly log: FastifyBaseLogger
  /** What the nodes of this start may want at once, see `connectionsNeeded`. */
  readonly connections: number
  /** PostgreSQL settings for the embedded cluster, only if this call starts it. */
  readonly settings?: Readonly<Record<string, string>>
  /** Called when the embedded PostgreSQL goes away: there is nothing left to serve with. */
  readonly onLost: () => void
}

/**
 * Opens the database and brings it to this version, takes the server lock of an embedded one, starts the demo upstream and looks
 * round for local servers. Throws an Error with a sentence for the operator.
 */
export async function prepare({
  config,
  log,
  connections,
  settings = {},
  onLost,
}: PrepareOptions): Promise<Foundation> {
  // What was started last is stopped first, also when something here fails.
  await using started = new AsyncDisposableStack()
  const { databaseUrl, dataDir } = config
  const database = await openDatabase({ databaseUrl: databaseUrl ?? undefined, dataDir, log, settings })
  started.defer(() => database.close())
  let lost = false
  if (database.embedded) {
    const lock = await acquireServerLock(database.connection, error => {
      log.error({ err: error }, 'the lock on the data directory was lost; stopping')
      lost = true
      onLost()
    })
    started.defer(() => lock.release())
  }
  // Behind the lock: the server that runs may be of an older version, and one that is refused beside it changes nothing below it.
  await migrate(database.connection, migrationsDir, () =>
    log.info('waiting for another process, which migrates the database'),
  )
  const masterKey = loadMasterKey(config)
  const pool = createPool(database.connection, { max: 1, applicationName: 'switchyard start' })
  try {
    await compareMasterKey(pool, masterKey, log)
    await warnOfFewConnections(pool, connections, log)
  } finally {
    await pool.end()
  }
  const supply = await gatherSupply(config)
  started.defer(() => supply.close())
  const running = started.move()
  return {
    connection: database.connection,
    embedded: database.embedded,
    masterKey,
    offers: supply.offers,
    findings: supply.findings,
    requireDatabase() {
      if (!lost) return
      throw new Error(
        'The PostgreSQL of the data directory went away. Start again: it is recovered, and nothing that was charged is lost.',
      )
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** A node that has another key than the others, or a restore without it, is known at once and not by what does not open one day. */
async function compareMasterKey(sql: Sql, masterKey: Buffer, log: FastifyBaseLogger): Promise<void> {
  if (await noteMasterKey(sql, masterKey)) return
  log.warn(
    'the master key is not the one of the start before this one: keys of hosters, secrets of webhooks and kept answers that were sealed with that one do not open. All nodes of a database need the same; restore it, or set the keys of hosters and the webhooks anew',
  )
}
