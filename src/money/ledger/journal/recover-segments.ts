import { crc32 } from 'node:zlib'
import type { Disk } from './disk.ts'
import { type ByteRange, scanRecords } from './record.ts'

/** One file of a journal. */
export interface Segment {
  readonly name: string
  /** All whole records. The file may be longer while `isTorn`. */
  written: Extent
  /** The records that were reported as written. */
  safe: Extent
  /** The number of records that are not forgotten. */
  live: number
  isTorn: boolean
  /** Whether its name survives a loss of power. Until then its synced bytes may be lost with it. */
  isNameSynced: boolean
  isBeingRemoved: boolean
  /** The name of a damaged segment when it is not needed any more. */
  keptAs: string | undefined
  /** Whether the file has lost records that this process wrote, or may have. */
  isDamaged: boolean
}

/** A record in the journal, as a handle for `forget`. Only the journal reads its fields. */
export interface JournalEntry {
  readonly segment: Segment
  isLive: boolean
}

/** Bytes of a segment that changed after they were written. Each place may have been a charge. */
export interface Damage {
  readonly segment: string
  readonly places: readonly ByteRange[]
  /** The name of the file when its other records are forgotten. Nothing ever removes it. */
  readonly keptAs: string
}

/** A segment that is not as it was written: it is shorter, has other bytes, or is gone. */
export interface ChangedSegment {
  readonly segment: string
  readonly expected: Extent
  /** Null when the file is gone or cannot be read. */
  readonly found: Extent | null
  /** See RecordedExtents. When false, this may be no damage. */
  readonly isCertain: boolean
}

export interface RecoveredSegments {
  readonly segments: Set<Segment>
  /** What earlier processes left in the journal, oldest first. */
  readonly recovered: readonly { readonly payload: Buffer; readonly entry: JournalEntry }[]
  /** Bytes of records that were never written whole. They were cut off. */
  readonly tornBytes: number
  /** Normally empty. */
  readonly damages: readonly Damage[]
  /** Normally empty. */
  readonly changed: readonly ChangedSegment[]
  /** The number of the next segment. */
  readonly nextNumber: number
}

/**
 * Reads all segments. Cuts off a torn last record, and leaves out damaged ones: a segment that has some is not removed
 * but renamed, see Damage, and so is one that has changed for certain. Throws the error of the disk.
 */
export function recoverSegments(disk: Disk, recorded: RecordedExtents | undefined): RecoveredSegments {
  const names = disk.list()
  const segmentNames = names.filter(isSegmentName).sort((a, b) => numberOf(a) - numberOf(b))
  const segments = new Set<Segment>()
  const recovered: { payload: Buffer; entry: JournalEntry }[] = []
  const damages: Damage[] = []
  const changed: ChangedSegment[] = []
  const isCertain = recorded?.areExact ?? false
  let tornBytes = 0
  for (const name of segmentNames) {
    const content = disk.read(name)
    const { records, damages: places, end, tail } = scanRecords(content)
    const rest = { offset: end, bytes: content.length - end }
    const expected = recorded?.extents.get(name)
    const found = expected && changeOf(content, expected)
    if (found !== undefined) changed.push({ segment: name, expected: expected!, found, isCertain })
    const isChanged = found !== undefined && isCertain
    // Only the last write can be torn by a crash.
    const isTorn = tail === 'torn' && name === segmentNames.at(-1) && !isChanged
    if (isTorn) {
      tornBytes += rest.bytes
      disk.truncate(name, end)
    }
    const allPlaces = tail === 'none' || isTorn ? places : [...places, rest]
    const keptAs = allPlaces.length > 0 || isChanged ? damagedName(name) : undefined
    if (keptAs !== undefined && !isChanged) damages.push({ segment: name, places: allPlaces, keptAs })
    const written = extentOf(isTorn ? content.subarray(0, end) : content, records.length)
    const segment = { ...newSegment(name), written, safe: written, live: records.length, keptAs }
    segments.add(segment)
    for (const { payload } of records) recovered.push({ payload, entry: { segment, isLive: true } })
  }
  for (const [segment, expected] of recorded?.extents ?? []) {
    if (names.includes(segment)) continue
    changed.push({ segment, expected, found: null, isCertain })
    if (isCertain) markLost(disk, segment)
  }
  // The number of a damaged segment is not used again: later damage would overwrite it.
  const numbers = disk
    .list()
    .filter(name => isSegmentName(name) || isDamagedName(name))
    .map(numberOf)
  return { segments, recovered, tornBytes, damages, changed, nextNumber: Math.max(0, ...numbers) + 1 }
}

/** Returns what a segment has instead of what was written to it, or undefined when all of that is there. */
export function changeOf(content: Buffer, { bytes, checksum }: Extent): Extent | undefined {
  const isWhole = content.length >= bytes && crc32(content.subarray(0, bytes)) === checksum
  return isWhole ? undefined : extentOf(content, scanRecords(content).records.length)
}

/** Leaves an empty file in the place of a damaged segment that is gone, so that an operator finds it. */
export function markLost(disk: Disk, segment: string): void {
  try {
    disk.append(damagedName(segment), Buffer.alloc(0))
  } catch {}
}

function extentOf(content: Buffer, records: number): Extent {
  return { bytes: content.length, records, checksum: crc32(content) }
}

export function newSegment(name: string): Segment {
  return {
    name,
    written: nothing,
    safe: nothing,
    live: 0,
    isTorn: false,
    isNameSynced: false,
    isBeingRemoved: false,
    keptAs: undefined,
    isDamaged: false,
  }
}

const nothing: Extent = { bytes: 0, records: 0, checksum: 0 }

export function segmentName(number: number): string {
  return `${String(number).padStart(8, '0')}.log`
}

/** Whether a file of that name is part of a journal. */
export function isSegmentName(name: string): boolean {
  return /^\d{8,15}\.log$/.test(name)
}

/** Whether a file of that name is a damaged segment that nothing needs any more. */
export function isDamagedName(name: string): boolean {
  return /^\d{8,15}\.damaged$/.test(name)
}

export const damagedName = (segment: string) => segment.replace('.log', '.damaged')
const numberOf = (name: string) => Number.parseInt(name, 10)

/** What was appended to a segment. Any other file has another one, also if all of its records are whole. */
export interface Extent {
  readonly bytes: number
  readonly records: number
  /** CRC-32 of the bytes. */
  readonly checksum: number
}

/** The extents of the segments of a journal, as its last process wrote them. */
export interface RecordedExtents {
  readonly extents: ReadonlyMap<string, Extent>
  /**
   * Whether they are exact: written on this disk since the machine started. After a loss of power, and in a copy that
   * was made while the original ran, they may be older or newer than the segments.
   */
  readonly areExact: boolean
}
