import type { Disk } from './disk.ts'
import { type ByteRange, scanRecords } from './record.ts'

/** One file of a journal. */
export interface Segment {
  readonly name: string
  /** Bytes of whole records. The file may be longer while `isTorn`. */
  bytes: number
  syncedBytes: number
  /** The number of records that are not forgotten. */
  live: number
  isTorn: boolean
  /** Whether its name survives a loss of power. Until then its synced bytes may be lost with it. */
  isNameSynced: boolean
  isBeingRemoved: boolean
  /** The name of a damaged segment when it is not needed any more. */
  readonly keptAs: string | undefined
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

export interface RecoveredSegments {
  readonly segments: Set<Segment>
  /** What earlier processes left in the journal, oldest first. */
  readonly recovered: readonly { readonly payload: Buffer; readonly entry: JournalEntry }[]
  /** Bytes of records that were never written whole. They were cut off. */
  readonly tornBytes: number
  /** Normally empty. */
  readonly damages: readonly Damage[]
  /** The number of the next segment. */
  readonly nextNumber: number
}

/**
 * Reads all segments. Cuts off a torn last record, and leaves out damaged ones: a segment that has some is not removed
 * but renamed, see Damage. Throws the error of the disk.
 */
export function recoverSegments(disk: Disk): RecoveredSegments {
  const names = disk.list()
  const segmentNames = names.filter(isSegmentName).sort((a, b) => numberOf(a) - numberOf(b))
  const segments = new Set<Segment>()
  const recovered: { payload: Buffer; entry: JournalEntry }[] = []
  const damages: Damage[] = []
  let tornBytes = 0
  for (const name of segmentNames) {
    const content = disk.read(name)
    const { records, damages: places, end, tail } = scanRecords(content)
    const rest = { offset: end, bytes: content.length - end }
    // Only the last write can be torn by a crash.
    const isTorn = tail === 'torn' && name === segmentNames.at(-1)
    if (isTorn) {
      tornBytes += rest.bytes
      disk.truncate(name, end)
    }
    const allPlaces = tail === 'none' || isTorn ? places : [...places, rest]
    const keptAs = allPlaces.length > 0 ? damagedName(name) : undefined
    if (keptAs !== undefined) damages.push({ segment: name, places: allPlaces, keptAs })
    const bytes = isTorn ? end : content.length
    const segment = { ...newSegment(name), bytes, syncedBytes: bytes, live: records.length, keptAs }
    segments.add(segment)
    for (const { payload } of records) recovered.push({ payload, entry: { segment, isLive: true } })
  }
  // The number of a damaged segment is not used again: later damage would overwrite it.
  const numbers = names.filter(name => isSegmentName(name) || isDamagedName(name)).map(numberOf)
  return { segments, recovered, tornBytes, damages, nextNumber: Math.max(0, ...numbers) + 1 }
}

export function newSegment(name: string): Segment {
  return {
    name,
    bytes: 0,
    syncedBytes: 0,
    live: 0,
    isTorn: false,
    isNameSynced: false,
    isBeingRemoved: false,
    keptAs: undefined,
  }
}

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

const damagedName = (segment: string) => segment.replace('.log', '.damaged')
const numberOf = (name: string) => Number.parseInt(name, 10)
