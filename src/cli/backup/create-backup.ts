import { readFileSync } from 'node:fs'
import { join, posix, relative } from 'node:path'
import { baseBackup } from '../../base/db/base-backup.ts'
import { codeOf } from '../../base/db/database-fault.ts'
import type { Connection } from '../../base/db/open-database.ts'
import { POSTGRES_MAJOR } from '../../base/db/postgres-programs.ts'
import { masterKeyPath } from '../../base/secrets/master-key.ts'
import { listJournalFiles } from '../../money/ledger/journal/journal-files.ts'
import { fileEntry, writeArchive } from './archive.ts'
import { BACKUP_FORMAT, type BackupDescription, DESCRIPTION } from './description.ts'
import { readTar, type TarEntry } from './tar.ts'

export interface BackupSource {
  readonly dataDir: string
  /** The role that owns the embedded PostgreSQL of the data directory, which must be running. */
  readonly owner: Connection
  /** The configuration file; null when there is none. */
  readonly configFile: string | null
  readonly startedAt: Date
  /** Version of this Switchyard. */
  readonly version: string
}

export interface CreatedBackup {
  readonly bytes: number
  readonly hasMasterKey: boolean
}

/**
 * Writes a backup of a data directory to `path`, while gateways may serve from it. It has every charge that was safe
 * when this function was called. Throws an Error for the operator, and then leaves no file.
 */
export async function createBackup(
  path: string,
  source: BackupSource,
  onWarning: (message: string) => void,
): Promise<CreatedBackup> {
  const masterKey = readIfThere(masterKeyPath(source.dataDir))
  const bytes = await writeArchive(path, entriesOf(source, masterKey, onWarning))
  return { bytes, hasMasterKey: masterKey !== undefined }
}

async function* entriesOf(
  { dataDir, owner, configFile, startedAt, version }: BackupSource,
  masterKey: Buffer | undefined,
  onWarning: (message: string) => void,
): AsyncGenerator<TarEntry> {
  const description: BackupDescription = {
    format: BACKUP_FORMAT,
    started_at: startedAt.toISOString(),
    switchyard: version,
    postgres: POSTGRES_MAJOR,
  }
  yield fileEntry(DESCRIPTION, `${JSON.stringify(description, null, 2)}\n`)
  if (masterKey !== undefined) yield fileEntry('master.key', masterKey)
  if (configFile !== null) yield fileEntry('switchyard.yaml', readFileSync(configFile))
  // Before the database: a charge that leaves the journal after this is committed, so the later copy of the database
  // has it. In the reverse order, a charge that moves between the two copies would be in neither.
  for (const { path } of listJournalFiles(join(dataDir, 'journal'))) {
    const content = readIfThere(path)
    if (content !== undefined) yield fileEntry(relative(dataDir, path), content)
  }
  for await (const entry of readTar(baseBackup(owner, onWarning))) {
    // PostgreSQL writes ./pg_wal/archive_status. The lock of its socket would lock nothing.
    const name = posix.normalize(entry.name)
    if (!/^\.s\.PGSQL\./.test(name)) yield { ...entry, name: `postgres/${name}` }
  }
}

/** Undefined when there is no such file. */
function readIfThere(path: string): Buffer | undefined {
  try {
    return readFileSync(path)
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new Error(`Cannot read ${path} (${codeOf(error)}). Run this as the owner of the data directory, or as root.`)
  }
}
