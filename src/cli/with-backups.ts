import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { tryFileLock } from '../base/db/file-lock.ts'
import { giveToSameOwner } from '../base/db/file-owner.ts'
import { type Connection, openDatabase } from '../base/db/open-database.ts'
import { createPool, type Pool } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'
import type { BackupPlan } from '../base/domain/backup-plan.ts'
import type { Config } from '../start/config/config.ts'
import { hasDatabase } from '../start/has-database.ts'
import type { BackupStore } from './backup/backup-store.ts'
import { openStore } from './backup/open-store.ts'
import type { Session } from './command.ts'
import { Busy, Failure } from './failure.ts'
import { noDatabase } from './with-database.ts'

export interface Backups {
  readonly plan: BackupPlan
  readonly store: BackupStore
  readonly owner: Connection
  readonly pool: Pool
  readonly databaseBytes: number
}

/**
 * Runs `work` on the embedded database and the place of its backups, as the only process that does. Migrates nothing: it may be the
 * backup before an upgrade.
 */
export async function withBackups<T>({ config, output }: Session, work: (backups: Backups) => Promise<T>): Promise<T> {
  requireEmbedded(config)
  const plan = requirePlan(config)
  const { dataDir } = config
  await using opened = new AsyncDisposableStack()
  opened.defer(lockBackups(dataDir))
  opened.defer(exitOnSignals())
  const { owner, close } = await openDatabase({ dataDir, log: { info: output.note, warn: output.note } })
  opened.defer(close)
  const pool = createPool(owner, { max: 1, applicationName: 'switchyard backup' })
  opened.defer(() => pool.end())
  const { bytes } = await queryRow<{ bytes: bigint }>(
    pool,
    'SELECT sum(pg_database_size(oid))::bigint AS bytes FROM pg_database WHERE datallowconn',
  )
  const databaseBytes = Number(bytes)
  return await work({ plan, store: await openStore(plan.place, databaseBytes), owner, pool, databaseBytes })
}

/** Throws Failure if the configuration has no place for backups. */
export function requirePlan({ backup }: Config): BackupPlan {
  if (backup !== null) return backup
  throw new Failure('The configuration has no place for backups. Set backup.to in switchyard.yaml.')
}

/** Throws Failure unless the database is the embedded one and exists. */
export function requireEmbedded(config: Config): void {
  if (config.databaseUrl !== null)
    throw new Failure(
      'The database is the one of DATABASE_URL, and this command can only back up the embedded PostgreSQL. Use the means of your PostgreSQL: pg_dump, pgBackRest, or snapshots by your provider. Keep a copy of the master key too.',
    )
  if (!hasDatabase(config)) throw noDatabase(config)
}

/** The nodes of a gateway, and commands, are processes of one machine. The kernel drops the lock of a killed one. */
function lockBackups(dataDir: string): () => void {
  const path = join(dataDir, 'backup.lock')
  const isNew = !existsSync(path)
  const lock = tryFileLock(path, 'exclusive')
  if (lock === undefined)
    throw new Busy(`Another backup or restore test of ${dataDir} is running. Try again when it has ended.`)
  if (isNew) giveToSameOwner(path)
  return () => lock.release()
}

/** Lets a PostgreSQL that only this process uses stop with it, also one that a restore test has started. */
function exitOnSignals(): () => void {
  const exit = () => process.exit(1)
  const signals = ['SIGINT', 'SIGTERM'] as const
  for (const signal of signals) process.once(signal, exit)
  return () => {
    for (const signal of signals) process.off(signal, exit)
  }
}
