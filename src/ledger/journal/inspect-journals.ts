import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { numberedDirectories } from './claim-directory.ts'
import { scanRecords } from './record.ts'
import { isDamagedName, isSegmentName } from './recover-segments.ts'

/** What a file of a journal holds. */
export interface InspectedFile {
  readonly path: string
  /** Whether a process still needs the file. False for a damaged file after its other records were settled. */
  readonly isInUse: boolean
  readonly records: number
  /** Bytes at the end that are the beginning of a record. */
  readonly tornBytes: number
  /** The bytes that belong to no record, in the order of the file. */
  readonly damages: readonly { readonly offset: number; readonly content: Buffer }[]
}

/**
 * Reads all journals below `root`, without a lock and without changing anything: a running process may be writing to
 * them. Throws the error of the operating system.
 */
export function inspectJournals(root: string): InspectedFile[] {
  if (!existsSync(root)) return []
  return numberedDirectories(root).flatMap(directory =>
    readdirSync(directory)
      .filter(name => isSegmentName(name) || isDamagedName(name))
      .sort()
      .map(name => inspectFile(join(directory, name), isSegmentName(name))),
  )
}

function inspectFile(path: string, isInUse: boolean): InspectedFile {
  const bytes = readFileSync(path)
  const { records, damages, end, tail } = scanRecords(bytes)
  const tailBytes = bytes.length - end
  const places = tail === 'damaged' ? [...damages, { offset: end, bytes: tailBytes }] : damages
  return {
    path,
    isInUse,
    records: records.length,
    tornBytes: tail === 'torn' ? tailBytes : 0,
    damages: places.map(place => ({
      offset: place.offset,
      content: bytes.subarray(place.offset, place.offset + place.bytes),
    })),
  }
}
