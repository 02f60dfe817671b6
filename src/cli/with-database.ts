import { userInfo } from 'node:os'
import { grantGatewayRights } from '../base/db/gateway-role.ts'
import { type Applied, migrate, pendingMigrations, sqlDir } from '../base/db/migrate.ts'
import { openDatabase } from '../base/db/open-database.ts'
import { createPool, type Pool } from '../base/db/pool.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { readSettingsVersion } from '../operator/settings-versions.ts'
import type { Config } from '../start/config/config.ts'
import type { RunTimeSettings } from '../start/config/run-time-settings.ts'
import { usableSettings } from '../start/config/usable-settings.ts'
import { hasDatabase } from '../start/has-database.ts'
import type { Session } from './command.ts'
import { Failure } from './failure.ts'

/**
 * Runs `work` on the configured database, with or without a running server. Starts the embedded PostgreSQL if
 * it is not running, and stops it afterwards. From then on, the configuration of the session has what operators manage. Applies pending migrations first; throws Failure if a server of
 * an older version is running.
 *
 * @param mayCreate whether to create a missing embedded PostgreSQL. Without it a missing one is a Failure,
 * because it usually means the wrong directory.
 * @param mayServe whether servers of an older version may go on. Changed tables are refused even so, by `migrate`; new functions
 * alone are not.
 */
export async function withDatabase<T>(
  { config, output, useSettings }: Session,
  work: (pool: Pool, applied: Applied) => Promise<T>,
  { mayCreate = false, mayServe = false } = {},
): Promise<T> {
  if (!mayCreate && !hasDatabase(config)) throw noDatabase(config)
  const database = await openDatabase({
    databaseUrl: config.databaseUrl ?? undefined,
    deskUrl: config.databaseDeskUrl ?? undefined,
    ownerUrl: config.databaseOwnerUrl ?? undefined,
    dataDir: config.dataDir,
    log: { info: output.note, warn: output.note },
  })
  try {
    const pool = createPool(database.owner, {
      max: 4,
      applicationName: 'switchyard cli',
      // No client waits for a command, and an audit reads the whole ledger.
      statementTimeoutMs: 0,
      lockTimeoutMs: 10_000,
      osUser: osUser(),
    })
    try {
      if (!mayServe) await requireNoOlderServer(pool)
      const onWait = () => output.note('Waiting for another process that is migrating the database')
      const applied = await migrate(database.owner, sqlDir, onWait)
      // Commands use the owner. Only new tables and functions need rights, so that a gateway can use them at once.
      if (applied.length > 0) await grantGatewayRights(database)
      for (const name of applied) output.note(`Applied ${name}`)
      if (useSettings !== undefined) useSettings(await readManaged(pool, config, output))
      return await work(pool, applied)
    } finally {
      await pool.end()
    }
  } finally {
    await database.close()
  }
}

/** Returns what operators manage, with what the file declares. Notes the managed keys that do not fit. */
async function readManaged(pool: Pool, config: Config, output: Session['output']): Promise<RunTimeSettings> {
  const managed = await readSettingsVersion(pool)
  const { settings, unused, problems } = usableSettings(managed.settings, config)
  if (problems.length > 0)
    output.note(`Managed settings do not fit to the configuration file and are not used: ${unused.join(', ')}`)
  return settings
}

/** The name of the user who runs the command, or the number of a user without a name, as in containers. */
function osUser(): string {
  try {
    return userInfo().username
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`
  }
}

export function noDatabase({ dataDir }: Pick<Config, 'dataDir'>): Failure {
  return new Failure(
    `There is no database in ${dataDir}. If this is not the server's data directory, set SWITCHYARD_DATA or DATABASE_URL to the server's value. To create a database, start the gateway or run ${ownCommand('init')}`,
  )
}

/**
 * Throws Failure if a server of an older version is running: until its restart it needs the tables of that
 * version.
 */
async function requireNoOlderServer(pool: Pool): Promise<void> {
  const pending = await pendingMigrations(pool)
  if (pending.length === 0) return
  const { rows: sessions } = await pool.query(
    "SELECT FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'switchyard heartbeat' LIMIT 1",
  )
  if (sessions.length === 0) return
  throw new Failure(
    `A running Switchyard server of an older version uses this database, and this command would migrate it (${pending.join(', ')}). Restart the server with this version first.`,
  )
}
