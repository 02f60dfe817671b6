import { closeSync, constants, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'
import { failpoint } from '../../../base/runtime/failpoint.ts'
import type { Disk } from './disk.ts'
import {
  type ChangedSegment,
  changeOf,
  damagedName,
  type Extent,
  markLost,
  newSegment,
  type RecordedExtents,
  type RecoveredSegments,
  type Segment,
  segmentName,
} from './recover-segments.ts'

export interface SegmentOptions {
  /** Used by this journal alone: see claim-directory.ts. */
  readonly disk: Disk
  /** Without it, a start finds only bytes that were changed inside of records. */
  readonly sizes?: SizesFile
  /** A segment that would grow beyond this is followed by a new one. Default 4 MiB. */
  readonly segmentBytes?: number
  /** Called with each segment that `verify` finds damaged. */
  readonly onDamaged?: (changed: ChangedSegment) => void
}

/**
 * The segment files of a journal: appends to the newest one, starts the next one when it is full, and removes
 * files that are not needed.
 */
export class SegmentStore {
  readonly #disk: Disk
  readonly #sizes: SizesFile | undefined
  readonly #onDamaged: (changed: ChangedSegment) => void
  readonly #segmentBytes: number
  readonly #segments: Set<Segment>
  #nextNumber: number
  #storedBytes = 0
  #verified = 0
  #haveSizes = false
  #isClosed = false
  /**
   * Undefined until the first append: recovered segments are not written to again, so that they can be removed when
   * their records are forgotten.
   */
  #current: Segment | undefined
  #removals = 0
  #allRemoved: PromiseWithResolvers<void> | undefined

  constructor(options: SegmentOptions, { segments, changed, nextNumber }: RecoveredSegments) {
    this.#disk = options.disk
    this.#sizes = options.sizes
    this.#onDamaged = options.onDamaged ?? (() => {})
    this.#segmentBytes = options.segmentBytes ?? 4 << 20
    this.#segments = segments
    this.#nextNumber = nextNumber
    for (const { written } of segments) this.#storedBytes += written.bytes
    this.#haveSizes = changed.length > 0
    this.#writeSizes()
  }

  /** Bytes of all segments, forgotten records included. */
  get storedBytes(): number {
    return this.#storedBytes
  }

  /**
   * Appends whole records to the current segment and returns that segment. If the disk reports an error, throws
   * it and stores none of the records.
   */
  append(bytes: Buffer, records: number): Segment {
    if (this.#current?.isTorn) this.#cutTear(this.#current)
    if (
      this.#current &&
      this.#current.written.bytes > 0 &&
      this.#current.written.bytes + bytes.length > this.#segmentBytes
    ) {
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
    const { written } = segment
    segment.written = {
      bytes: written.bytes + bytes.length,
      records: written.records + records,
      checksum: crc32(bytes, written.checksum),
    }
    this.#storedBytes += bytes.length
    return segment
  }

  /** What was written to this segment up to here is about to be reported as written. */
  markSafe(segment: Segment, extent: Extent): void {
    segment.safe = extent
    this.#writeSizes()
  }

  /**
   * See Journal.verify. Segments without a live record are left out: they are not needed. One that has changed gets no
   * further record, and is kept.
   */
  async verify(): Promise<boolean> {
    const needed = [...this.#segments].filter(({ live, safe, isDamaged }) => live > 0 && safe.bytes > 0 && !isDamaged)
    const segment = needed[this.#verified++ % needed.length]
    if (segment !== undefined) await this.#verifySegment(segment)
    return [...this.#segments].some(({ isDamaged, live }) => isDamaged && live > 0)
  }

  async #verifySegment(segment: Segment): Promise<void> {
    const { name, safe: expected } = segment
    const content = await this.#disk.load(name)
    const found = content === undefined ? null : changeOf(content, expected)
    const isNeeded = this.#segments.has(segment) && !segment.isBeingRemoved && !this.#isClosed
    if (found === undefined || !isNeeded) return
    segment.isDamaged = true
    segment.keptAs = damagedName(name)
    if (this.#current === segment) this.#current = undefined
    this.removeFinished()
    this.#onDamaged({ segment: name, expected, found, isCertain: true })
  }

  /** Cuts off everything that was appended since the last sync. The segment gets no further record. */
  discardUnsynced(segment: Segment): void {
    if (this.#current === segment) this.#current = undefined
    this.#storedBytes -= segment.written.bytes - segment.safe.bytes
    segment.written = segment.safe
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
    if (current === undefined || current.live > 0 || current.written.bytes === 0 || current.isTorn) return
    this.#current = undefined
    this.removeFinished()
  }

  /** Removes every segment that has no live record, except the current one. Damaged ones are renamed. */
  removeFinished(): void {
    const finished: Segment[] = []
    for (const segment of this.#segments) {
      if (segment.live > 0 || segment === this.#current || segment.isBeingRemoved) continue
      segment.isBeingRemoved = true
      finished.push(segment)
    }
    if (finished.length === 0) return
    this.#removals += finished.length
    // First, so that a segment that is gone was expected to be.
    this.#writeSizes()
    for (const segment of finished) {
      failpoint('segment-before-removal')
      const done = (error: Error | null) => this.#removed(segment, error)
      if (segment.keptAs === undefined) this.#disk.remove(segment.name, done)
      else this.#keep(segment, segment.keptAs, done)
    }
  }

  /** Ends the current segment. Resolves when all removals have ended. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#current = undefined
    this.removeFinished()
    await this.removals()
    this.#sizes?.close()
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
    this.#storedBytes -= segment.written.bytes
  }

  #keep(segment: Segment, keptAs: string, done: (error: Error | null) => void): void {
    this.#disk.rename(segment.name, keptAs, error => {
      const isGone = error !== null && !this.#disk.list().includes(segment.name)
      if (isGone) markLost(this.#disk, segment.name)
      done(isGone ? null : error)
    })
  }

  #writeSizes(): void {
    const kept = [...this.#segments].filter(({ safe, isBeingRemoved }) => safe.bytes > 0 && !isBeingRemoved)
    if (kept.length === 0 && !this.#haveSizes) return
    this.#sizes?.write(kept.map(({ name, safe }) => [name, safe] as const))
    this.#haveSizes = kept.length > 0
  }

  #cutTear(segment: Segment): void {
    // The append that failed may not even have created the file.
    if (this.#disk.list().includes(segment.name)) this.#disk.truncate(segment.name, segment.written.bytes)
    segment.isTorn = false
  }

  /** Like `#cutTear`, but ignores a failure. The next append tries again, and is refused if that fails too. */
  #tryToCutTear(segment: Segment): void {
    try {
      this.#cutTear(segment)
    } catch {}
  }
}

/**
 * Keeps the extents of all segments next to them. A segment alone shows neither that it is gone, nor that whole records
 * are missing at its end, nor that it was replaced by an older copy.
 */
export interface SizesFile {
  /** Undefined when there are none that can be read. */
  read(): RecordedExtents | undefined
  /** Replaces the extents without a sync. Ignores a failure, after which there are none. */
  write(extents: Iterable<readonly [segment: string, extent: Extent]>): void
  /** The next write opens the file again. */
  close(): void
}

/** @param identity of the directory: see fileIdentity */
export function createSizesFile(directory: string, identity: string | undefined): SizesFile {
  const path = join(directory, SIZES_FILE)
  let fd: number | undefined
  const close = () => {
    if (fd !== undefined) closeSync(fd)
    fd = undefined
  }
  return {
    read() {
      try {
        const text = readFileSync(path, 'utf8')
        const writtenUnder = text.slice(0, text.indexOf('\n'))
        const extents = decodeExtents(text.slice(writtenUnder.length + 1))
        return extents && { extents, areExact: identity !== undefined && writtenUnder === identity }
      } catch {
        return undefined
      }
    },
    write(extents) {
      try {
        fd ??= openSync(path, constants.O_RDWR | constants.O_CREAT, 0o600)
        writeSync(fd, `${identity ?? ''}\n${encodeExtents(extents)}`, 0)
      } catch {
        close()
        rmSync(path, { force: true })
      }
    },
    close,
  }
}

const SIZES_FILE = 'sizes'

/**
 * One line for each segment, and a checksum of them. What follows in the file is the end of an earlier, longer text.
 */
function encodeExtents(extents: Iterable<readonly [string, Extent]>): string {
  let lines = ''
  for (const [name, { bytes, records, checksum }] of extents) lines += `${name} ${bytes} ${records} ${checksum}\n`
  return `${lines}end ${crc32(lines)}\n`
}

function decodeExtents(text: string): Map<string, Extent> | undefined {
  const [, lines, checksum] = /^((?:[^\n]+\n)*?)end (\d+)\n/.exec(text) ?? []
  if (lines === undefined || crc32(lines) !== Number(checksum)) return undefined
  return new Map(
    lines
      .split('\n')
      .filter(Boolean)
      .map(line => {
        const [name = '', bytes, records, checksum] = line.split(' ')
        return [name, { bytes: Number(bytes), records: Number(records), checksum: Number(checksum) }]
      }),
  )
}
