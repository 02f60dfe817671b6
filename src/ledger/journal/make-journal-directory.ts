import { accessSync, constants, mkdirSync } from 'node:fs'

/** Makes `path`, for its owner alone, when absent. Throws what to do when it cannot be made or written to. */
export function makeJournalDirectory(path: string): void {
  try {
    mkdirSync(path, { recursive: true, mode: 0o700 })
    accessSync(path, constants.R_OK | constants.W_OK | constants.X_OK)
  } catch (error) {
    throw unusable(path, error)
  }
}

/** The system's error in words that say what to do about it. */
export function unusable(path: string, error: unknown): Error {
  const reason = error instanceof Error ? error.message : String(error)
  return new Error(
    `The journal cannot be kept in ${path} (${reason}). Make it a directory on a local disk with free space that ` +
      'belongs to the user who runs this, or choose another data directory with SWITCHYARD_DATA.',
    { cause: error },
  )
}
