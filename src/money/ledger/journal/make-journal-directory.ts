import { accessSync, constants } from 'node:fs'
import { makeDirectory } from '../../../base/db/make-directory.ts'

/**
 * Creates `path`, accessible to its owner only, if it does not exist. Throws an error that says what to do
 * when that fails or when the directory is not writable.
 */
export function makeJournalDirectory(path: string): void {
  try {
    makeDirectory(path, 0o700)
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw unusable(path, error)
  }
}

/** Whether the disk, or the quota of the user on it, is full. */
export function isDiskFull(error: unknown): boolean {
  return ['ENOSPC', 'EDQUOT'].includes(String((error as { code?: unknown } | null)?.code))
}

export function diskIsFull(path: string, error: unknown): Error {
  const reason = error instanceof Error ? error.message : String(error)
  return new Error(
    `The disk of the journal in ${path} is full (${reason}). Free at least 100 kB on it, then start again: remove files of ` +
      'other programs, or enlarge the disk. Do not remove files of the journal: its .log files are charges that ' +
      'PostgreSQL may not have.',
    { cause: error },
  )
}

/** Explains an error of the operating system and says what to do about it. */
export function unusable(path: string, error: unknown): Error {
  if (isDiskFull(error)) return diskIsFull(path, error)
  const reason = error instanceof Error ? error.message : String(error)
  return new Error(
    `The journal cannot be kept in ${path} (${reason}). Make it a directory on a local disk with free space, owned by ` +
      'the user that runs Switchyard, or choose another data directory with SWITCHYARD_DATA.',
    { cause: error },
  )
}
