import type { FastifyBaseLogger } from 'fastify'
import { durabilityWarnings } from '../base/db/durability.ts'
import { warnOfFewConnections } from '../base/db/few-connections.ts'
import { grantGatewayRights } from '../base/db/gateway-role.ts'
import { migrate, sqlDir } from '../base/db/migrate.ts'
import { type Connection, type DatabaseHandle, openDatabase } from '../base/db/open-database.ts'
import { createPool, type Sql, transaction } from '../base/db/pool.ts'
import { acquireServerLock } from '../base/db/server-lock.ts'
import type { ConfigReload } from '../base/domain/config-reload.ts'
import type { Offer } from '../base/domain/offer.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { joinRing } from '../base/secrets/key-ring-state.ts'
import { loadMasterKeys } from '../base/secrets/master-key.ts'
import type { MasterKeys } from '../base/secrets/master-keys.ts'
import { watchMasterKeys } from '../base/secrets/watch-master-keys.ts'
import { writeGroupRules } from '../identity/people/group-roles.ts'
import type { Finding } from '../market/supply/detection/detect-local.ts'
import type { Config } from './config/config.ts'
import { gatherOffers } from './gather-offers.ts'
import { hasDatabase } from './has-database.ts'
import { listenProblem, tryToListen } from './listen-problem.ts'
import { createConfigReload } from './reload-config.ts'

/**
 * The resources that all processes of a gateway share, created once at startup. Disposal stops them, PostgreSQL
 * last.
 */
export interface Foundation extends AsyncDisposable {
  readonly connection: Connection
  /** The role that signs people in and books payments; the same as `connection` when one role does both jobs. */
  readonly desk: Connection
  /** The role that owns the tables; the same as `connection` when one role does both jobs. */
  readonly owner: Connection
  /**
   * Whether PostgreSQL runs from the data directory. If so, the server lock proves that no other gateway uses
   * it.
   */
  readonly embedded: boolean
  readonly masterKeys: MasterKeys
  /** Local and cloud offers at start: configured, detected and the demo. */
  readonly offers: readonly Offer[]
  /** Detected servers and clouds, for the operator. */
  readonly findings: readonly Finding[]
  /** From now on, calls `onChange` with all local and cloud offers when local servers have other models. */
  watchOffers(onChange: (offers: readonly Offer[]) => void): void
  /** From now on, calls `onKeys` with the master keys of their file, or of each configuration that was read again. It returns false to refuse them. */
  watchMasterKeys(onKeys: (keys: readonly Buffer[]) => boolean): void
  /** From now on, calls `onChange` with each configuration that was read again. */
  watchConfig(onChange: (changed: Config) => void): void
  /** Reads the configuration again and uses its endpoints and what else can change, at all nodes of this process: see `createConfigReload`. */
  reload(): Promise<ConfigReload>
  /** Throws an Error with a message for the operator when the embedded PostgreSQL was lost. */
  requireDatabase(): void
}

export interface PrepareOptions {
  readonly config: Config
  /** Reads the configuration again. Throws ConfigError. */
  readonly readAgain: () => Config
  readonly log: FastifyBaseLogger
  /** How many connections the nodes may open at the same time, see `connectionsNeeded`. */
  readonly connections: number
  /** Settings for the embedded PostgreSQL. They apply only if this call starts it. */
  readonly settings?: Readonly<Record<string, string>>
  /** Whether the operator has asked to stop. The rest of the start is then left out. */
  readonly isStopping: () => boolean
  /** Called when the embedded PostgreSQL is lost: the gateway cannot serve without it. */
  readonly onLost: () => void
}

/**
 * Opens the database, takes the server lock if the database is embedded, migrates, starts the demo upstream and detects
 * local servers. Resolves with undefined, and with everything closed, when the operator stops the start. Throws an
 * Error with a message for the operator.
 */
export async function prepare({
  config,
  readAgain,
  log,
  connections,
  settings = {},
  isStopping,
  onLost,
}: PrepareOptions): Promise<Foundation | undefined> {
  // Disposed in the reverse order of the start, even when a later step fails.
  await using started = new AsyncDisposableStack()
  const { databaseUrl, databaseDeskUrl, databaseOwnerUrl, dataDir } = config
  if (!hasDatabase(config)) await requireFreePort(config)
  const database = await openDatabase({
    databaseUrl: databaseUrl ?? undefined,
    deskUrl: databaseDeskUrl ?? undefined,
    ownerUrl: databaseOwnerUrl ?? undefined,
    dataDir,
    log,
    settings,
  })
  started.defer(() => database.close())
  let lost = false
  const isOver = () => {
    if (lost) throw lostDatabase()
    return isStopping()
  }
  if (isOver()) return undefined
  if (database.embedded) {
    const lock = await acquireServerLock(database.connection, error => {
      log.error({ err: error }, 'the connection that locks the data directory broke; stopping')
      lost = true
      onLost()
    })
    started.defer(() => lock.release())
  }
  // Migrate only with the lock: a running server may have an older version, and a second server that is refused
  // must not migrate its database.
  await migrate(database.owner, sqlDir, () => log.info('waiting for another process that is migrating the database'))
  await grantGatewayRights(database)
  const masterKeys = loadMasterKeys(config)
  await joinKeyRing(database, masterKeys, log)
  await asOwner(database, sql => writeGroupRules(sql, config.accounts.oidc))
  const pool = createPool(database.connection, { max: 1, applicationName: 'switchyard start' })
  try {
    await warnOfFewConnections(pool, connections, log)
    for (const { text } of await durabilityWarnings(pool)) log.warn(text)
  } finally {
    await pool.end()
  }
  if (isOver()) return undefined
  const supply = await gatherOffers(config)
  started.defer(() => supply.close())
  if (isOver()) return undefined
  let onConfig = (_changed: Config) => {}
  let readKeys = (_changed: Config) => {}
  const running = started.move()
  return {
    connection: database.connection,
    desk: database.desk,
    owner: database.owner,
    embedded: database.embedded,
    masterKeys,
    offers: supply.offers,
    findings: supply.findings,
    watchOffers: onChange => supply.watch(log, onChange),
    watchMasterKeys(onKeys) {
      const watch = watchMasterKeys({ place: config, onKeys, log })
      readKeys = watch.read
      running.defer(watch.stop)
    },
    watchConfig(onChange) {
      onConfig = onChange
    },
    reload: createConfigReload({
      config,
      readAgain,
      async use(changed) {
        await supply.redeclare(changed)
        onConfig(changed)
        readKeys(changed)
      },
      log,
    }),
    requireDatabase() {
      if (lost) throw lostDatabase()
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

function lostDatabase(): Error {
  return new Error(
    'The embedded PostgreSQL stopped unexpectedly. Start Switchyard again: the database recovers, and no charge is lost.',
  )
}

/** Reports a taken port before a database is created for a gateway that cannot run. */
async function requireFreePort({ server }: Config): Promise<void> {
  const error = await tryToListen(server)
  if (error) throw new Error(await listenProblem(error, server))
}

/**
 * Seals with the key that the installation seals with. Warns about a wrong master key, for example after a restore: without the
 * warning, the first sign would be a secret that cannot be opened.
 */
async function joinKeyRing(
  { owner, embedded }: Pick<DatabaseHandle, 'owner' | 'embedded'>,
  masterKeys: MasterKeys,
  log: FastifyBaseLogger,
): Promise<void> {
  const joined = await asOwner({ owner }, sql => joinRing(sql, masterKeys, embedded))
  if (joined === 'former')
    throw new Error(
      `The master key of this machine was replaced by another one. Copy the present key (SWITCHYARD_MASTER_KEY or master.key) of a machine that serves, or from a backup. If it is lost, or the key of this machine was replaced by mistake: ${ownCommand('key-ring adopt')}`,
    )
  if (joined === 'replaced')
    log.warn(
      'the master key differs from the one of the previous start: nothing that was encrypted with that key can be decrypted, and the evidence of credit does not match. All nodes of a database need the same master key. Restore the previous one. docs/operating.md#security lists what must be set again without it',
    )
  if (joined === 'other')
    log.error(
      'this node does not have the master key of the other nodes: it cannot decrypt what they encrypt, nor they what it encrypts. Stop it, copy the key of the others (SWITCHYARD_MASTER_KEY or master.key) and start it again',
    )
}

async function asOwner<T>({ owner }: Pick<DatabaseHandle, 'owner'>, work: (sql: Sql) => Promise<T>): Promise<T> {
  const pool = createPool(owner, { max: 1, applicationName: 'switchyard start' })
  return await transaction(pool, work).finally(() => pool.end())
}
