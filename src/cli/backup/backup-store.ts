import type { ArchiveSource } from './archive.ts'
import type { TarEntry } from './tar.ts'

/** Where the backups of one gateway are kept. All methods throw an Error for the operator. */
export interface BackupStore {
  /** Writes an archive of these entries, which gets its name when it is complete. Resolves with its size in bytes. */
  write(name: string, entries: AsyncIterable<TarEntry>): Promise<number>
  /** Lists complete backups, the newest first. Other files are left out. */
  list(): Promise<StoredBackup[]>
  read(name: string): ArchiveSource
  remove(name: string): Promise<void>
  /** Removes what backups left that were killed. */
  sweep(): Promise<void>
}

export interface StoredBackup {
  readonly name: string
  /** When it began, Unix ms. */
  readonly startedMs: number
  readonly bytes: number
}

/** What is unfinished for as long belongs to no process that lives: a backup writes all the time. */
export const LEFTOVER_MS = 86_400_000

/** Returns the name of a backup that begins now. */
export function backupName(startedAt: Date): string {
  return `switchyard-${startedAt.toISOString().slice(0, 19).replaceAll(':', '')}Z.tar.zst`
}

/** Returns the backups among these files, the newest first. */
export function backupsAmong(files: Iterable<{ readonly name: string; readonly bytes: number }>): StoredBackup[] {
  return [...files]
    .flatMap(({ name, bytes }) => {
      const startedMs = startOf(name)
      return startedMs === undefined ? [] : [{ name, startedMs, bytes }]
    })
    .toSorted((a, b) => b.startedMs - a.startedMs)
}

/** When the backup of this name began, Unix ms; undefined if it is no name of a backup. */
function startOf(name: string): number | undefined {
  const match = /^switchyard-(\d{4}-\d\d-\d\dT)(\d\d)(\d\d)(\d\d)Z\.tar\.zst$/.exec(name)
  if (match === null) return undefined
  const [, day, hour, minute, second] = match
  const startedMs = Date.parse(`${day}${hour}:${minute}:${second}Z`)
  return Number.isNaN(startedMs) ? undefined : startedMs
}
