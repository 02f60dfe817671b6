import { readFileSync } from 'node:fs'
import { type JournalFile, listJournalFiles } from './journal-files.ts'
import { scanRecords } from './record.ts'

/** What a file of a journal holds. */
export interface InspectedFile extends JournalFile {
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
  return listJournalFiles(root).map(inspectFile)
}

function inspectFile({ path, isInUse }: JournalFile): InspectedFile {
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
