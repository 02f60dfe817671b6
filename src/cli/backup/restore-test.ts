import { rm, statfs } from 'node:fs/promises'
import { dirname } from 'node:path'
import { embeddedCluster } from '../../base/db/embedded-cluster.ts'
import { migrate, sqlDir } from '../../base/db/migrate.ts'
import { openDatabase } from '../../base/db/open-database.ts'
import { createPool } from '../../base/db/pool.ts'
import type { DatabaseLog } from '../../base/db/start-lock.ts'
import { audit } from '../../money/ledger/audit/audit.ts'
import type { CreditEvidence } from '../../money/ledger/credit-evidence.ts'
import type { ArchiveSource } from './archive.ts'
import { restoreBackup } from './restore-backup.ts'

export interface RestoreTestOptions {
  /** Is created, and removed afterwards. Nothing else may use it. */
  readonly directory: string
  /** How large the database is now. */
  readonly databaseBytes: number
  /** Undefined: the evidence of credit is not checked. */
  readonly isEvidence: CreditEvidence['isValid'] | undefined
  readonly log: DatabaseLog
}

/** There is no room for a test. The message is for the operator. */
export class NoSpace extends Error {
  override name = 'NoSpace'
}

/**
 * Restores a backup as an operator would, starts PostgreSQL on it, brings it to this version and audits its ledger. Resolves with
 * the number of checks. Throws an Error for the operator if any of that fails.
 */
export async function testRestore(source: ArchiveSource, options: RestoreTestOptions): Promise<number> {
  const { directory, databaseBytes, isEvidence, log } = options
  await remove(directory)
  await requireSpace(directory, databaseBytes)
  try {
    await restoreBackup(source, directory, log)
    await using opened = new AsyncDisposableStack()
    const database = await openDatabase({ dataDir: directory, log, settings: THROWAWAY })
    opened.defer(() => database.close())
    await migrate(database.owner, sqlDir)
    // An audit cancels what takes too long on a second connection.
    const pool = createPool(database.owner, {
      max: 2,
      applicationName: 'switchyard restore test',
      statementTimeoutMs: 0,
    })
    opened.defer(() => pool.end())
    const findings = await audit(pool, { isEvidence })
    const violated = findings.filter(({ violations }) => violations > 0).map(({ name }) => name)
    if (violated.length > 0)
      throw new Error(`${source.name} was restored, but its ledger violates ${violated.join(', ')}.`)
    return findings.length
  } finally {
    await remove(directory)
  }
}

/** What is lost with a crash is only the test. */
const THROWAWAY = { fsync: 'off', shared_buffers: '32MB', max_connections: '10' }

/** Removes what a test left that was killed, which may still run. */
async function remove(directory: string): Promise<void> {
  const cluster = embeddedCluster(directory)
  if (cluster.exists()) await cluster.stop()
  await rm(directory, { recursive: true, force: true })
}

/** The database, and the WAL of its recovery. */
const SPACE_FACTOR = 1.3

/** A full disk would stop the gateway if the test ran on the disk of its data directory. */
async function requireSpace(directory: string, databaseBytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(dirname(directory))
  const neededBytes = databaseBytes * SPACE_FACTOR + SPARE_BYTES
  if (bavail * bsize >= neededBytes) return
  const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(1)
  throw new NoSpace(
    `A restore test in ${directory} needs ${gigabytes(neededBytes)} GB, and ${gigabytes(bavail * bsize)} GB are free. Set backup.test_directory to a directory on another disk.`,
  )
}

const SPARE_BYTES = 500_000_000
