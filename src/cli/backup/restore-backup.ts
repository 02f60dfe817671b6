import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { giveToOwnerOf, giveToSameOwner } from '../../base/db/file-owner.ts'
import { makeClusterParent } from '../../base/db/make-directory.ts'
import { restoreCluster } from '../../base/db/restore-cluster.ts'
import { type DatabaseLog, lockStart } from '../../base/db/start-lock.ts'
import { systemErrorText } from '../../base/runtime/error-message.ts'
import { type ArchiveSource, readArchive, syncDirectory } from './archive.ts'
import { type BackupDescription, DESCRIPTION, parseDescription } from './description.ts'
import type { TarEntry } from './tar.ts'

export interface RestoredBackup {
  readonly description: BackupDescription
  readonly files: number
  readonly hasMasterKey: boolean
  readonly hasConfiguration: boolean
}

/**
 * Reads a whole backup and compares its checksums, without writing anything. Throws an Error for the operator if it
 * cannot be restored by this program.
 */
export async function checkBackup(source: ArchiveSource): Promise<RestoredBackup> {
  return readBackup(source, async () => {})
}

/**
 * Restores a backup into a data directory that does not exist or is empty. Its files get their names when their
 * checksums are right and PostgreSQL has recovered the database. Throws an Error for the operator, and then leaves the
 * data directory empty.
 */
export async function restoreBackup(source: ArchiveSource, dataDir: string, log: DatabaseLog): Promise<RestoredBackup> {
  makeClusterParent(dataDir)
  // The lock would create a file in a directory that is not ours.
  requireEmpty(dataDir)
  const lock = await lockStart(dataDir, log)
  let draft: string | undefined
  try {
    removeDrafts(dataDir)
    requireEmpty(dataDir)
    draft = mkdtempSync(join(dataDir, DRAFT))
    // PostgreSQL, which may run as another user, works in it.
    chmodSync(draft, 0o711)
    giveToSameOwner(draft)
    const restored = await extract(source, draft)
    await restoreCluster(draft, join(draft, 'files', 'postgres'))
    await moveInto(dataDir, draft)
    return restored
  } finally {
    if (draft !== undefined) rmSync(draft, { recursive: true, force: true })
    lock.release()
  }
}

/** Prefix of the directory in which a backup is unpacked. */
const DRAFT = 'restore.new-'

/** Left by a restore that was interrupted or failed, or part of a new file system. */
const MAY_EXIST = /^(restore\.new-.*|postgres\.start\.lock|lost\+found)$/

function requireEmpty(dataDir: string): void {
  const found = readdirSync(dataDir).filter(name => !MAY_EXIST.test(name))
  if (found.length > 0)
    throw new Error(
      `${dataDir} is not empty (${found.slice(0, 3).join(', ')}). A backup is restored into an empty or a new directory only: choose one with --data, or move these files away.`,
    )
}

function removeDrafts(dataDir: string): void {
  for (const name of readdirSync(dataDir).filter(name => name.startsWith(DRAFT)))
    rmSync(join(dataDir, name), { recursive: true })
}

/** Unpacks a backup into `<draft>/files`. */
async function extract(source: ArchiveSource, draft: string): Promise<RestoredBackup> {
  return readBackup(source, async entry => {
    const target = join(draft, 'files', entry.name)
    try {
      if (entry.type === 'directory') return void mkdirSync(target, { recursive: true, mode: 0o700 })
      mkdirSync(dirname(target), { recursive: true, mode: 0o700 })
      // PostgreSQL flushes its own files when it recovers.
      const flush = !entry.name.startsWith('postgres/')
      await writeFile(target, entry.content, { mode: 0o600, flag: 'wx', flush })
    } catch (error) {
      if (!(error instanceof Error && 'syscall' in error)) throw error
      throw new Error(`Cannot restore into ${dirname(draft)}: ${systemErrorText(error)}. Nothing was restored.`)
    }
  })
}

async function readBackup(source: ArchiveSource, store: (entry: TarEntry) => Promise<void>): Promise<RestoredBackup> {
  const { name: path } = source
  let description: BackupDescription | undefined
  const names = new Set<string>()
  for await (const entry of readArchive(source)) {
    requirePlainName(path, entry.name)
    names.add(entry.name)
    if (description === undefined) {
      if (entry.name !== DESCRIPTION) throw new Error(`${path} is not a backup of Switchyard.`)
      description = parseDescription(path, await text(entry.content))
    } else await store(entry)
  }
  if (description === undefined || !names.has('postgres/PG_VERSION'))
    throw new Error(`${path} is not a backup of Switchyard: it has no database.`)
  return {
    description,
    files: names.size,
    hasMasterKey: names.has('master.key'),
    hasConfiguration: names.has('switchyard.yaml'),
  }
}

/** A name that leads out of the data directory was never written by a backup. */
function requirePlainName(path: string, name: string): void {
  if (name.split('/').some(part => ['', '.', '..'].includes(part)))
    throw new Error(`${path} is not a backup of Switchyard: it has a file with the name ${JSON.stringify(name)}.`)
}

/** Gives all parts their names. The database is last: without it, no start takes the directory for a data directory. */
async function moveInto(dataDir: string, draft: string): Promise<void> {
  const files = join(draft, 'files')
  const journal = join(files, 'journal')
  if (existsSync(journal)) {
    const contents = readdirSync(journal, { recursive: true, withFileTypes: true })
    for (const entry of contents) giveToOwnerOf(dataDir, join(entry.parentPath, entry.name))
    for (const entry of contents) if (entry.isDirectory()) await syncDirectory(join(entry.parentPath, entry.name))
    await syncDirectory(journal)
  }
  for (const name of ['journal', 'master.key', 'switchyard.yaml'].filter(name => existsSync(join(files, name)))) {
    giveToOwnerOf(dataDir, join(files, name))
    renameSync(join(files, name), join(dataDir, name))
  }
  for (const name of ['postgres.json', 'postgres']) renameSync(join(draft, name), join(dataDir, name))
  await syncDirectory(dataDir)
}
