import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { numberedDirectories } from './claim-directory.ts'
import { isDamagedName, isSegmentName } from './recover-segments.ts'

export interface JournalFile {
  readonly path: string
  /** Whether a process still needs the file. False for a damaged file after its other records were settled. */
  readonly isInUse: boolean
}

/** Lists the files with charges of all journals below `root`. Any of them may vanish when its charges are settled. */
export function listJournalFiles(root: string): JournalFile[] {
  if (!existsSync(root)) return []
  return numberedDirectories(root).flatMap(directory =>
    readdirSync(directory)
      .filter(name => isSegmentName(name) || isDamagedName(name))
      .sort()
      .map(name => ({ path: join(directory, name), isInUse: isSegmentName(name) })),
  )
}
