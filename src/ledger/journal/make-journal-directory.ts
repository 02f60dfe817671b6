import { accessSync, constants, mkdirSync } from 'node:fs'

/**
 * Creates `path`, accessible to its owner only, if it does not exist. Throws an error that says what to do
 * when that fails or when the directory is not writable.
 */
export function makeJournalDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw unusable(path, error)
  }
}

/** Explains an error of the operating system and says what to do about it. */
export function unusable(path: string, error: unknown): Error {
  const reason = error instanceof Error ? error.message : String(error)
  return new Error(
    `The journal cannot be kept in ${path} (${reason}). Make it a directory on a local disk with free space, owned by ` +
      'the user that runs Switchyard, or choose another data directory with SWITCHYARD_DATA.',
    { cause: error },
  )
}
