import type { Disk } from './disk.ts'
import { holdsRecord, scanRecords } from './record.ts'

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
}

/** A record in the journal, as a handle for `forget`. Only the journal reads its fields. */
export interface JournalEntry {
  readonly segment: Segment
  isLive: boolean
}

export interface Damage {
  readonly segment: string
  /** Everything from this byte of the segment on was set aside. */
  readonly offset: number
  readonly bytes: number
  /** The file that has those bytes now. Nothing ever reads or removes it. */
  readonly keptAs: string
}

export interface RecoveredSegments {
  readonly segments: Set<Segment>
  /** What earlier processes left in the journal, oldest first. */
  readonly recovered: readonly { readonly payload: Buffer; readonly entry: JournalEntry }[]
  /** Bytes of records that were never written whole. They were cut off. */
  readonly tornBytes: number
  /** Bytes that changed after they were written. Normally empty: any damage may be a lost record. */
  readonly damages: readonly Damage[]
  /** The number of the next segment. */
  readonly nextNumber: number
}

/** Reads all segments. Cuts off a torn last record and sets damaged bytes aside. Throws the error of the disk. */
export function recoverSegments(disk: Disk): RecoveredSegments {
  const names = disk.list()
  const segmentNames = names.filter(isSegmentName).sort((a, b) => numberOf(a) - numberOf(b))
  const segments = new Set<Segment>()
  const recovered: { payload: Buffer; entry: JournalEntry }[] = []
  const damages: Damage[] = []
  let tornBytes = 0
  for (const name of segmentNames) {
    const bytes = disk.read(name)
    const { payloads, end } = scanRecords(bytes)
    const rest = bytes.subarray(end)
    if (rest.length > 0) {
      // Only the last write can be torn by a crash, and nothing follows a tear.
      const isTear = name === segmentNames.at(-1) && !holdsRecord(rest.subarray(1))
      if (isTear) tornBytes += rest.length
      else damages.push({ segment: name, offset: end, bytes: rest.length, keptAs: setAside(disk, name, rest) })
      disk.truncate(name, end)
    }
    const segment = { ...newSegment(name), bytes: end, syncedBytes: end, live: payloads.length }
    segments.add(segment)
    for (const payload of payloads) recovered.push({ payload, entry: { segment, isLive: true } })
  }
  // The number of set-aside bytes is not used again: later damage would overwrite them.
  const numbers = names.filter(name => isSegmentName(name) || damagedPattern.test(name)).map(numberOf)
  return { segments, recovered, tornBytes, damages, nextNumber: Math.max(0, ...numbers) + 1 }
}

/**
 * Copies damaged bytes to another file and returns its name. After a crash before the segment is cut, both files
 * exist, and this one is written again.
 */
function setAside(disk: Disk, segment: string, bytes: Buffer): string {
  const name = segment.replace('.log', '.damaged')
  if (disk.list().includes(name)) disk.truncate(name, 0)
  disk.append(name, bytes)
  return name
}

export function newSegment(name: string): Segment {
  return { name, bytes: 0, syncedBytes: 0, live: 0, isTorn: false, isNameSynced: false, isBeingRemoved: false }
}

export function segmentName(number: number): string {
  return `${String(number).padStart(8, '0')}.log`
}

/** Whether a file of that name is part of a journal. */
export function isSegmentName(name: string): boolean {
  return /^\d{8,15}\.log$/.test(name)
}

const damagedPattern = /^\d{8,15}\.damaged$/
const numberOf = (name: string) => Number.parseInt(name, 10)
