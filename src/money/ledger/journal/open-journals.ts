import { claimAbandonedDirectories, claimDirectory } from './claim-directory.ts'
import { createJournals, type Journals, type JournalsOptions } from './create-journals.ts'
import { createFileDisk } from './file-disk.ts'

export interface OpenJournalsOptions extends Omit<JournalsOptions, 'segmentBytes'> {
  /** Contains one directory per process. */
  readonly root: string
}

/**
 * Claims a journal directory for this process, and all directories of dead processes. Throws an error that says what to
 * do when the directories cannot be used.
 */
export async function openJournals({ root, ...options }: OpenJournalsOptions): Promise<Journals> {
  const withDisk = (claimed: Awaited<ReturnType<typeof claimDirectory>>) => ({
    claimed,
    disk: createFileDisk(claimed.path),
  })
  const own = withDisk(await claimDirectory(root))
  const others = (await claimAbandonedDirectories(root)).map(withDisk)
  return createJournals([own, ...others], { ...options, segmentBytes: segmentBytesOf(options.maxBytes) })
}

/**
 * Returns the size of a segment. A segment is removed when all of its records are settled, so with large segments,
 * settled records would fill the journal.
 */
function segmentBytesOf(maxBytes: number): number {
  return Math.min(4 << 20, Math.floor(maxBytes / 8))
}
