import { failpoint } from '../../../base/runtime/failpoint.ts'
import type { Scheduler } from '../../../base/runtime/scheduler.ts'
import { createRecordBatch, type RecordBatch } from './record.ts'
import { type JournalEntry, type RecoveredSegments, recoverSegments, type Segment } from './recover-segments.ts'
import { type SegmentOptions, SegmentStore } from './segment-store.ts'

export type { JournalEntry } from './recover-segments.ts'

export interface JournalOptions extends SegmentOptions {
  readonly scheduler: Pick<Scheduler, 'soon'>
  /**
   * Whether a write is reported only when its record survives a loss of power. It survives the death of the
   * process either way.
   */
  readonly fsync: boolean
  /** Limit of all segments together. Beyond it writes are refused. Default 256 MiB. */
  readonly maxBytes?: number
}

/** A log of byte records that are kept until they are forgotten. It does not interpret them. */
export interface Journal {
  /**
   * Adds a record. Text is stored as UTF-8, and `payload` is copied at once. `onWritten` is called once,
   * never before `write` has returned, with the entry when the record is in the journal; it must not throw.
   * Throws RangeError when `payload` is empty, longer than 1 MiB or has a byte 0.
   */
  write(payload: string | Uint8Array, onWritten: OnWritten): void
  /** The record need not be recovered any more. A second call, or one after `close`, does nothing. Never throws. */
  forget(entry: JournalEntry): void
  /**
   * Compares a segment on the disk with what was written to it, the next one with each call. Resolves with whether
   * damaged segments have records that are not forgotten: they must be written again. Never rejects.
   */
  verify(): Promise<boolean>
  /** Whether the record is in a segment that is not damaged, as far as `verify` knows. */
  isIntact(entry: JournalEntry): boolean
  /** Bytes of all segments, including forgotten records in them. */
  readonly bytes: number
  /** Records that are written or recovered, and not forgotten. */
  readonly entries: number
  /** Resolves when the files of forgotten records that are being removed are gone. */
  removals(): Promise<void>
  /**
   * Writes what is queued, then releases the disk and refuses later writes. Leaves no file behind when every
   * record is forgotten.
   */
  close(): Promise<void>
}

export type OnWritten = (failure: JournalUnavailable | undefined, entry: JournalEntry | undefined) => void

export interface OpenedJournal extends Pick<RecoveredSegments, 'recovered' | 'tornBytes' | 'damages' | 'changed'> {
  readonly journal: Journal
}

/**
 * Reads what is in the journal and opens it for writing. A record can be recovered again after it was
 * forgotten, since segments are removed whole: a replay must tolerate that. A damaged segment is renamed instead of
 * removed.
 *
 * All records of one turn of the event loop go to the disk together. With `fsync`, all records that arrive
 * during a sync share the next one. Files other than `<number>.log` are left alone. Throws JournalUnavailable
 * when the disk cannot be read, or when a torn segment cannot be cut.
 */
export function openJournal(options: JournalOptions): OpenedJournal {
  const found = recover(options)
  const { recovered, tornBytes, damages, changed } = found
  return { journal: new BatchedJournal(options, found), recovered, tornBytes, damages, changed }
}

/** Records that went to the disk in one write. */
interface Group {
  readonly segment: Segment
  readonly entries: readonly JournalEntry[]
  readonly callbacks: readonly OnWritten[]
}

class BatchedJournal implements Journal {
  readonly #disk: JournalOptions['disk']
  readonly #scheduler: Pick<Scheduler, 'soon'>
  readonly #fsync: boolean
  readonly #maxBytes: number
  readonly #segments: SegmentStore
  readonly #batch: RecordBatch = createRecordBatch()
  #waiting: OnWritten[] = []
  #entries: number
  #unsynced: Group[] = []
  #isSyncing = false
  #synced: Promise<void> = Promise.resolve()
  #closed: Promise<void> | undefined
  #isReleased = false

  constructor(options: JournalOptions, found: RecoveredSegments) {
    this.#disk = options.disk
    this.#scheduler = options.scheduler
    this.#fsync = options.fsync
    this.#maxBytes = options.maxBytes ?? 256 << 20
    this.#entries = found.recovered.length
    this.#segments = new SegmentStore(options, found)
    this.#segments.removeFinished()
  }

  get bytes(): number {
    return this.#segments.storedBytes
  }

  get entries(): number {
    return this.#entries
  }

  write(payload: string | Uint8Array, onWritten: OnWritten): void {
    const before = this.#batch.length
    this.#batch.add(payload)
    const refusal = this.#refusalOf(before)
    if (refusal) {
      this.#batch.cut(before)
      this.#scheduler.soon(() => onWritten(refusal, undefined))
      return
    }
    this.#waiting.push(onWritten)
    if (this.#waiting.length === 1) this.#scheduler.soon(() => this.#flush())
  }

  forget(entry: JournalEntry): void {
    if (!entry.isLive || this.#isReleased) return
    entry.isLive = false
    this.#entries--
    this.#segments.forgetRecord(entry.segment)
  }

  verify(): Promise<boolean> {
    return this.#segments.verify()
  }

  isIntact(entry: JournalEntry): boolean {
    return !entry.segment.isDamaged
  }

  removals(): Promise<void> {
    return this.#segments.removals()
  }

  close(): Promise<void> {
    this.#closed ??= this.#closeOnce()
    return this.#closed
  }

  async #closeOnce(): Promise<void> {
    this.#flush()
    await this.#synced
    const removed = this.#segments.close()
    this.#isReleased = true
    await removed
  }

  #refusalOf(before: number): JournalUnavailable | undefined {
    if (this.#closed) return new JournalUnavailable('closed', 'The journal is closed.')
    const added = this.#batch.length
    if (this.bytes + added > this.#maxBytes) this.#segments.dropForgottenCurrent()
    if (this.bytes + added <= this.#maxBytes) return undefined
    const usage = `${this.bytes + before} of ${this.#maxBytes} bytes are used`
    return new JournalUnavailable('full', `The journal is full: ${usage}.`)
  }

  #flush(): void {
    if (this.#waiting.length === 0) return
    const callbacks = this.#waiting
    this.#waiting = []
    let segment: Segment
    failpoint('journal-before-write')
    try {
      segment = this.#segments.append(this.#batch.take(), callbacks.length)
    } catch (error) {
      const failure = diskFailure('written', error)
      for (const onWritten of callbacks) onWritten(failure, undefined)
      return
    }
    const group: Group = { segment, callbacks, entries: callbacks.map(() => ({ segment, isLive: true })) }
    failpoint('journal-written')
    segment.live += callbacks.length
    this.#entries += callbacks.length
    if (this.#fsync) {
      this.#unsynced.push(group)
      if (!this.#isSyncing) this.#synced = this.#syncGroups()
    } else {
      this.#segments.markSafe(segment, segment.written)
      report(group)
    }
  }

  async #syncGroups(): Promise<void> {
    this.#isSyncing = true
    while (this.#unsynced.length > 0) {
      const groups = this.#unsynced
      this.#unsynced = []
      for (const segment of new Set(groups.map(group => group.segment))) {
        const ofSegment = groups.filter(group => group.segment === segment)
        const { written } = segment
        try {
          await this.#disk.sync(segment.name)
          if (!segment.isNameSynced) await this.#disk.syncDirectory()
          segment.isNameSynced = true
        } catch (error) {
          this.#abandonUnsynced(segment, ofSegment, error)
          continue
        }
        this.#segments.markSafe(segment, written)
        ofSegment.forEach(report)
      }
    }
    this.#isSyncing = false
  }

  /**
   * After a failed fsync Linux counts the lost pages as clean, so a second fsync succeeds without having written
   * them. No record that waits for a sync of this segment can be trusted, so the segment gets no further record.
   */
  #abandonUnsynced(segment: Segment, failed: readonly Group[], error: unknown): void {
    const groups = [...failed, ...this.#unsynced.filter(group => group.segment === segment)]
    this.#unsynced = this.#unsynced.filter(group => group.segment !== segment)
    for (const { entries } of groups) {
      segment.live -= entries.length
      this.#entries -= entries.length
    }
    this.#segments.discardUnsynced(segment)
    const failure = diskFailure('synced', error)
    for (const { callbacks } of groups) for (const onWritten of callbacks) onWritten(failure, undefined)
  }
}

function report({ callbacks, entries }: Group): void {
  callbacks.forEach((onWritten, index) => {
    onWritten(undefined, entries[index])
  })
}

function recover({ disk, sizes }: JournalOptions): RecoveredSegments {
  try {
    return recoverSegments(disk, sizes?.read())
  } catch (error) {
    throw diskFailure('opened', error)
  }
}

/**
 * The record was not journaled: the limit is reached, the disk refused, or the journal is closed. Later
 * writes may succeed again. What the disk may have kept of the record is cut off at once. The refused record can be
 * recovered only if the process dies before it is cut off, or if the disk refuses the cut too.
 */
export class JournalUnavailable extends Error {
  readonly reason: 'full' | 'disk' | 'closed'

  constructor(reason: JournalUnavailable['reason'], message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'JournalUnavailable'
    this.reason = reason
  }
}

/** Explains an error of the disk. `what` is a participle: the journal could not be opened, written or synced. */
function diskFailure(what: string, error: unknown): JournalUnavailable {
  const detail = error instanceof Error ? error.message : String(error)
  const message = `The journal could not be ${what} (${detail}). Check the free space and the rights of its directory.`
  return new JournalUnavailable('disk', message, { cause: error })
}
