import { failpoint } from '../../runtime/failpoint.ts'
import type { Scheduler } from '../../runtime/scheduler.ts'
import type { Disk } from './disk.ts'
import { createRecordBatch, holdsRecord, scanRecords } from './record.ts'

export interface JournalOptions {
  /** Used by this journal alone: see claim-directory.ts. */
  readonly disk: Disk
  readonly scheduler: Pick<Scheduler, 'soon'>
  /** Whether a write is reported only when its record survives a loss of power. It survives the death of the process either way. */
  readonly fsync: boolean
  /** A segment that would grow beyond this is followed by a new one. Default 4 MiB. */
  readonly segmentBytes?: number
  /** Bound of all segments together; beyond it writes are refused. Default 256 MiB. */
  readonly maxBytes?: number
}

/** A log of byte records that are kept until they are forgotten. It knows nothing of what they mean. */
export interface Journal {
  /**
   * Adds a record; text is stored as UTF-8, and `payload` is copied at once. `onWritten` is called once, with the entry when the record is in
   * the journal, never before `write` has returned, and must not throw. Throws RangeError when `payload` is empty or longer than 1 MiB.
   */
  write(payload: string | Uint8Array, onWritten: OnWritten): void
  /** The record need not be recovered any more. Again, or after `close`, it does nothing. Never throws. */
  forget(entry: JournalEntry): void
  /** Bytes of all segments, those of forgotten records included as long as their segment is there. */
  readonly bytes: number
  /** Records that are written, or recovered, and not forgotten. */
  readonly entries: number
  /** Writes what waits, then lets go of the disk: later writes are refused. Leaves no file behind when everything is forgotten. */
  close(): Promise<void>
}

export type OnWritten = (failure: JournalUnavailable | undefined, entry: JournalEntry | undefined) => void

/** A record in the journal, to be forgotten one day. Only the journal looks into it. */
export interface JournalEntry {
  readonly segment: Segment
  isLive: boolean
}

export interface OpenedJournal {
  readonly journal: Journal
  /** What earlier processes wrote and left, oldest first. */
  readonly recovered: readonly { readonly payload: Buffer; readonly entry: JournalEntry }[]
  /** Bytes of records that were never written whole; cut off. */
  readonly tornBytes: number
  /** Places that were written and have changed since. Should be empty; anything here may be a lost record. */
  readonly damages: readonly Damage[]
}

export interface Damage {
  readonly segment: string
  /** Everything from this byte of the segment on was set aside. */
  readonly offset: number
  readonly bytes: number
  /** The file that has those bytes now. Nothing ever reads or removes it. */
  readonly keptAs: string
}

/**
 * The record was not journaled: the bound is reached, the disk refused, or the journal is closed. Later writes may
 * succeed again. What the disk may have kept of the record is cut off at once; only if the process dies before that, or
 * the disk refuses that too, can the record be recovered although its write was refused.
 */
export class JournalUnavailable extends Error {
  readonly reason: 'full' | 'disk' | 'closed'

  constructor(reason: JournalUnavailable['reason'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'JournalUnavailable'
    this.reason = reason
  }
}

interface Segment {
  readonly name: string
  /** Bytes of whole records. More may be there while `isTorn`. */
  bytes: number
  syncedBytes: number
  /** Its records that are not forgotten. */
  live: number
  isTorn: boolean
  /** Its removal is under way. */
  isLeaving: boolean
}

/** Records that went to the disk in one write. */
interface Group {
  readonly segment: Segment
  readonly entries: readonly JournalEntry[]
  readonly callbacks: readonly OnWritten[]
}

/**
 * Reads what is in the journal and opens it for writing. A record can be recovered again after it was forgotten, since
 * segments are removed whole: whoever replays records must bear that.
 *
 * All records of one turn of the event loop go to the disk together, and with `fsync` all that come during a sync share
 * the next one. Files other than `<number>.log` are left alone.
 * Throws JournalUnavailable when the disk cannot be read, or when a torn segment cannot be cut.
 */
export function openJournal(options: JournalOptions): OpenedJournal {
  const { disk, scheduler, fsync, segmentBytes = 4 << 20, maxBytes = 256 << 20 } = options
  const { segments, recovered, tornBytes, damages, nextNumber } = recover(disk)
  let number = nextNumber
  let storedBytes = 0
  for (const { bytes } of segments) storedBytes += bytes
  let liveEntries = recovered.length

  // Recovered segments are not written to again, so that they go when their records are forgotten.
  let current: Segment | undefined
  const batch = createRecordBatch()
  let waiting: OnWritten[] = []
  let unsynced: Group[] = []
  let isSyncing = false
  let synced = Promise.resolve()
  let closed: Promise<void> | undefined
  let isReleased = false
  let removals = 0
  let whenRemoved: PromiseWithResolvers<void> | undefined
  removeFinished()

  function write(payload: string | Uint8Array, onWritten: OnWritten): void {
    const before = batch.length
    batch.add(payload)
    const refusal = refusalOf(before)
    if (refusal) {
      batch.cut(before)
      scheduler.soon(() => onWritten(refusal, undefined))
      return
    }
    waiting.push(onWritten)
    if (waiting.length === 1) scheduler.soon(flush)
  }

  function refusalOf(before: number): JournalUnavailable | undefined {
    if (closed) return new JournalUnavailable('closed', 'The journal is closed.')
    if (storedBytes + batch.length > maxBytes) dropForgottenCurrent()
    if (storedBytes + batch.length <= maxBytes) return undefined
    return new JournalUnavailable('full', `The journal is full: ${storedBytes + before} of ${maxBytes} bytes are used.`)
  }

  /** Without this a journal whose bound is near its segment size would stay full with nothing left to keep. */
  function dropForgottenCurrent(): void {
    if (current === undefined || current.live > 0 || current.bytes === 0 || current.isTorn) return
    current = undefined
    removeFinished()
  }

  function flush(): void {
    if (waiting.length === 0) return
    const callbacks = waiting
    waiting = []
    let segment: Segment
    failpoint('journal-before-write')
    try {
      segment = store(batch.take())
    } catch (error) {
      const failure = diskFailure('written', error)
      for (const onWritten of callbacks) onWritten(failure, undefined)
      return
    }
    const group: Group = { segment, callbacks, entries: callbacks.map(() => ({ segment, isLive: true })) }
    failpoint('journal-written')
    segment.live += callbacks.length
    liveEntries += callbacks.length
    if (fsync) {
      unsynced.push(group)
      if (!isSyncing) synced = syncGroups()
    } else report(group)
  }

  function store(bytes: Buffer): Segment {
    if (current?.isTorn) cutTear(current)
    if (current && current.bytes > 0 && current.bytes + bytes.length > segmentBytes) {
      current = undefined
      failpoint('journal-rotating')
      removeFinished()
    }
    current ??= newSegment(nameOf(number++))
    try {
      disk.append(current.name, bytes)
    } catch (error) {
      current.isTorn = true
      try {
        cutTear(current)
      } catch {
        // Tried again before the next write, which is refused while it fails.
      }
      throw error
    }
    segments.add(current)
    current.bytes += bytes.length
    storedBytes += bytes.length
    return current
  }

  function cutTear(segment: Segment): void {
    // The append that failed may not even have made the file.
    if (disk.list().includes(segment.name)) disk.truncate(segment.name, segment.bytes)
    segment.isTorn = false
  }

  async function syncGroups(): Promise<void> {
    isSyncing = true
    while (unsynced.length > 0) {
      const groups = unsynced
      unsynced = []
      for (const segment of new Set(groups.map(group => group.segment))) {
        const ofSegment = groups.filter(group => group.segment === segment)
        const { bytes } = segment
        try {
          await disk.sync(segment.name)
        } catch (error) {
          abandonUnsynced(segment, ofSegment, error)
          continue
        }
        segment.syncedBytes = bytes
        ofSegment.forEach(report)
      }
    }
    isSyncing = false
  }

  /**
   * After a failed fsync Linux counts the lost pages as clean, so a second one succeeds without having written them.
   * Hence nothing that waited for this segment can be trusted, and it gets no further record.
   */
  function abandonUnsynced(segment: Segment, failed: readonly Group[], error: unknown): void {
    const groups = [...failed, ...unsynced.filter(group => group.segment === segment)]
    unsynced = unsynced.filter(group => group.segment !== segment)
    if (current === segment) current = undefined
    for (const { entries } of groups) {
      segment.live -= entries.length
      liveEntries -= entries.length
    }
    storedBytes -= segment.bytes - segment.syncedBytes
    segment.bytes = segment.syncedBytes
    try {
      cutTear(segment)
    } catch {
      // They may be recovered then, as JournalUnavailable says.
    }
    removeFinished()
    const failure = diskFailure('synced', error)
    for (const { callbacks } of groups) for (const onWritten of callbacks) onWritten(failure, undefined)
  }

  function forget(entry: JournalEntry): void {
    if (!entry.isLive || isReleased) return
    entry.isLive = false
    entry.segment.live--
    liveEntries--
    if (entry.segment.live === 0 && entry.segment !== current) removeFinished()
  }

  function removeFinished(): void {
    for (const segment of segments) {
      if (segment.live > 0 || segment === current || segment.isLeaving) continue
      failpoint('segment-before-removal')
      segment.isLeaving = true
      removals++
      disk.remove(segment.name, error => removed(segment, error))
    }
  }

  function removed(segment: Segment, error: Error | null): void {
    segment.isLeaving = false
    removals--
    if (removals === 0) whenRemoved?.resolve()
    // It stays counted then, and is tried again when the next segment is finished.
    if (error !== null) return
    failpoint('segment-removed')
    segments.delete(segment)
    storedBytes -= segment.bytes
  }

  async function closeOnce(): Promise<void> {
    flush()
    await synced
    current = undefined
    removeFinished()
    isReleased = true
    if (removals === 0) return
    whenRemoved = Promise.withResolvers()
    await whenRemoved.promise
  }

  const journal: Journal = {
    write,
    forget,
    get bytes() {
      return storedBytes
    },
    get entries() {
      return liveEntries
    },
    close() {
      closed ??= closeOnce()
      return closed
    },
  }
  return { journal, recovered, tornBytes, damages }
}

function report({ callbacks, entries }: Group): void {
  callbacks.forEach((onWritten, index) => {
    onWritten(undefined, entries[index])
  })
}

function recover(disk: Disk) {
  try {
    return recoverSegments(disk)
  } catch (error) {
    throw diskFailure('opened', error)
  }
}

function recoverSegments(disk: Disk) {
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
      // Only the last write can be torn by a crash, and nothing comes behind a tear.
      const isTear = name === segmentNames.at(-1) && !holdsRecord(rest.subarray(1))
      if (isTear) tornBytes += rest.length
      else damages.push({ segment: name, offset: end, bytes: rest.length, keptAs: setAside(disk, name, rest) })
      disk.truncate(name, end)
    }
    const segment = { ...newSegment(name), bytes: end, syncedBytes: end, live: payloads.length }
    segments.add(segment)
    for (const payload of payloads) recovered.push({ payload, entry: { segment, isLive: true } })
  }
  // A number that set-aside bytes carry is not used again, or later damage would overwrite them.
  const numbers = names.filter(name => isSegmentName(name) || damagedPattern.test(name)).map(numberOf)
  return { segments, recovered, tornBytes, damages, nextNumber: Math.max(0, ...numbers) + 1 }
}

/** A crash before the segment is cut leaves both files, so this one is written anew then. */
function setAside(disk: Disk, segment: string, bytes: Buffer): string {
  const name = segment.replace('.log', '.damaged')
  if (disk.list().includes(name)) disk.truncate(name, 0)
  disk.append(name, bytes)
  return name
}

/** Whether a file of that name is part of a journal. */
export function isSegmentName(name: string): boolean {
  return /^\d{8,15}\.log$/.test(name)
}

const damagedPattern = /^\d{8,15}\.damaged$/
const nameOf = (number: number) => `${String(number).padStart(8, '0')}.log`
const numberOf = (name: string) => Number.parseInt(name, 10)

function newSegment(name: string): Segment {
  return { name, bytes: 0, syncedBytes: 0, live: 0, isTorn: false, isLeaving: false }
}

function diskFailure(what: string, error: unknown): JournalUnavailable {
  const detail = error instanceof Error ? error.message : String(error)
  const message = `The journal could not be ${what} (${detail}). Check the free space and the rights of its directory.`
  return new JournalUnavailable('disk', message, { cause: error })
}
