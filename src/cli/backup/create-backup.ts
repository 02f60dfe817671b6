import { readFileSync } from 'node:fs'
import { join, posix, relative } from 'node:path'
import { baseBackup } from '../../base/db/base-backup.ts'
import { codeOf } from '../../base/db/database-fault.ts'
import type { Connection } from '../../base/db/open-database.ts'
import { POSTGRES_MAJOR } from '../../base/db/postgres-programs.ts'
import { masterKeyPath } from '../../base/secrets/master-key.ts'
import { listJournalFiles } from '../../money/ledger/journal/journal-files.ts'
import { fileEntry } from './archive.ts'
import { BACKUP_FORMAT, type BackupDescription, DESCRIPTION } from './description.ts'
import { readTar, type TarEntry } from './tar.ts'

export interface BackupSource {
  readonly dataDir: string
  /** The role that owns the embedded PostgreSQL of the data directory, which must be running. */
  readonly owner: Connection
  /** The configuration file; null when there is none. */
  readonly configFile: string | null
  /** Whether the backup gets the master key and the configuration file. */
  readonly includesSecrets: boolean
  readonly startedAt: Date
  /** Version of this Switchyard. */
  readonly version: string
}

export interface BackupContent {
  readonly hasMasterKey: boolean
  readonly hasConfiguration: boolean
  /**
   * To be written as an archive. It has every charge that was safe when the first entry was requested. Throws an Error for
   * the operator.
   */
  readonly entries: AsyncIterable<TarEntry>
}

/** Returns the backup of a data directory from which gateways may serve. Throws an Error for the operator. */
export function createBackup(source: BackupSource, onWarning: (message: string) => void): BackupContent {
  const { dataDir, configFile, includesSecrets } = source
  const masterKey = includesSecrets ? readIfThere(masterKeyPath(dataDir)) : undefined
  const configuration = includesSecrets && configFile !== null ? readFileSync(configFile) : undefined
  return {
    hasMasterKey: masterKey !== undefined,
    hasConfiguration: configuration !== undefined,
    entries: entriesOf(source, { 'master.key': masterKey, 'switchyard.yaml': configuration }, onWarning),
  }
}

async function* entriesOf(
  { dataDir, owner, startedAt, version }: BackupSource,
  secrets: Readonly<Record<string, Buffer | undefined>>,
  onWarning: (message: string) => void,
): AsyncGenerator<TarEntry> {
  const description: BackupDescription = {
    format: BACKUP_FORMAT,
    started_at: startedAt.toISOString(),
    switchyard: version,
    postgres: POSTGRES_MAJOR,
  }
  yield fileEntry(DESCRIPTION, `${JSON.stringify(description, null, 2)}\n`)
  for (const [name, content] of Object.entries(secrets)) if (content !== undefined) yield fileEntry(name, content)
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
