import { failpoint } from '../../runtime/failpoint.ts'
import type { Disk } from './disk.ts'
import { newSegment, type RecoveredSegments, type Segment, segmentName } from './recover-segments.ts'

/**
 * The segment files of a journal: appends to the newest one, starts the next one when it is full, and removes
 * files that are not needed.
 */
export class SegmentStore {
  readonly #disk: Disk
  readonly #segmentBytes: number
  readonly #segments: Set<Segment>
  #nextNumber: number
  #storedBytes = 0
  /**
   * Undefined until the first append: recovered segments are not written to again, so that they can be removed when
   * their records are forgotten.
   */
  #current: Segment | undefined
  #removals = 0
  #allRemoved: PromiseWithResolvers<void> | undefined

  constructor(disk: Disk, segmentBytes: number, { segments, nextNumber }: RecoveredSegments) {
    this.#disk = disk
    this.#segmentBytes = segmentBytes
    this.#segments = segments
    this.#nextNumber = nextNumber
    for (const { bytes } of segments) this.#storedBytes += bytes
  }

  /** Bytes of all segments, forgotten records included. */
  get storedBytes(): number {
    return this.#storedBytes
  }

  /**
   * Appends whole records to the current segment and returns that segment. If the disk reports an error, throws
   * it and stores none of the records.
   */
  append(bytes: Buffer): Segment {
    if (this.#current?.isTorn) this.#cutTear(this.#current)
    if (this.#current && this.#current.bytes > 0 && this.#current.bytes + bytes.length > this.#segmentBytes) {
      this.#current = undefined
      failpoint('journal-rotating')
      this.removeFinished()
    }
    this.#current ??= newSegment(segmentName(this.#nextNumber++))
    const segment = this.#current
    try {
      this.#disk.append(segment.name, bytes)
    } catch (error) {
      segment.isTorn = true
      this.#tryToCutTear(segment)
      throw error
    }
    this.#segments.add(segment)
    segment.bytes += bytes.length
    this.#storedBytes += bytes.length
    return segment
  }

  /** Cuts off everything that was appended since the last sync. The segment gets no further record. */
  discardUnsynced(segment: Segment): void {
    if (this.#current === segment) this.#current = undefined
    this.#storedBytes -= segment.bytes - segment.syncedBytes
    segment.bytes = segment.syncedBytes
    // If this fails too, the records may be recovered, as JournalUnavailable says.
    this.#tryToCutTear(segment)
    this.removeFinished()
  }

  /** Marks one record of this segment as no longer needed. */
  forgetRecord(segment: Segment): void {
    segment.live--
    if (segment.live === 0 && segment !== this.#current) this.removeFinished()
  }

  /**
   * Frees the current segment when all of its records are forgotten. Otherwise a journal with a limit near
   * its segment size would stay full.
   */
  dropForgottenCurrent(): void {
    const current = this.#current
    if (current === undefined || current.live > 0 || current.bytes === 0 || current.isTorn) return
    this.#current = undefined
    this.removeFinished()
  }

  /** Removes every segment that has no live record, except the current one. Damaged ones are renamed. */
  removeFinished(): void {
    for (const segment of this.#segments) {
      if (segment.live > 0 || segment === this.#current || segment.isBeingRemoved) continue
      failpoint('segment-before-removal')
      segment.isBeingRemoved = true
      this.#removals++
      const done = (error: Error | null) => this.#removed(segment, error)
      if (segment.keptAs === undefined) this.#disk.remove(segment.name, done)
      else this.#disk.rename(segment.name, segment.keptAs, done)
    }
  }

  /** Ends the current segment. Resolves when all removals have ended. */
  async close(): Promise<void> {
    this.#current = undefined
    this.removeFinished()
    await this.removals()
  }

  /** Resolves when all removals that are running have ended. */
  removals(): Promise<void> {
    if (this.#removals === 0) return Promise.resolve()
    this.#allRemoved ??= Promise.withResolvers()
    return this.#allRemoved.promise
  }

  #removed(segment: Segment, error: Error | null): void {
    segment.isBeingRemoved = false
    this.#removals--
    if (this.#removals === 0) {
      this.#allRemoved?.resolve()
      this.#allRemoved = undefined
    }
    // The file still counts in `storedBytes`. `removeFinished` tries again when the next segment is finished.
    if (error !== null) return
    failpoint('segment-removed')
    this.#segments.delete(segment)
    this.#storedBytes -= segment.bytes
  }

  #cutTear(segment: Segment): void {
    // The append that failed may not even have created the file.
    if (this.#disk.list().includes(segment.name)) this.#disk.truncate(segment.name, segment.bytes)
    segment.isTorn = false
  }

  /** Like `#cutTear`, but ignores a failure. The next append tries again, and is refused if that fails too. */
  #tryToCutTear(segment: Segment): void {
    try {
      this.#cutTear(segment)
    } catch {}
  }
}
