import {
  closeSync,
  constants,
  fdatasync,
  openSync,
  readdirSync,
  readFileSync,
  rename,
  rmSync,
  truncateSync,
  unlink,
  writeSync,
} from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { crc32 } from 'node:zlib'
import type { Disk } from './disk.ts'
import { makeJournalDirectory } from './make-journal-directory.ts'

/** A disk in a directory of the file system. */
export interface FileDisk extends Disk {
  /** Closes the file that was appended to last. The next append opens it again. */
  close(): void
}

/**
 * Opens `directory` and creates it if needed. Sub-directories are ignored. The file that was appended to last
 * stays open, since opening costs more than writing. Throws an error that says what to do when the directory
 * cannot be used.
 */
export function createFileDisk(directory: string): FileDisk {
  makeJournalDirectory(directory)
  const pathOf = (name: string) => join(directory, name)
  let current: OpenFile | undefined

  function fileOf(name: string): OpenFile {
    if (current?.name === name) return current
    const fd = openSync(pathOf(name), 'a', 0o600)
    release()
    current = { name, fd, syncs: 0, isLeft: false }
    return current
  }

  function release(): void {
    if (current === undefined) return
    current.isLeft = true
    closeWhenUnused(current)
    current = undefined
  }

  return {
    list() {
      const entries = readdirSync(directory, { withFileTypes: true })
      return entries.filter(entry => entry.isFile()).map(entry => entry.name)
    },
    read: name => readFileSync(pathOf(name)),
    load: name => readFile(pathOf(name)).catch(() => undefined),
    append(name, bytes) {
      const { fd } = fileOf(name)
      // Near a full disk, a quota or a size limit, a write may store only a part.
      for (let offset = 0; offset < bytes.length; ) offset += writeSync(fd, bytes, offset)
    },
    async sync(name) {
      const file = current?.name === name ? current : { name, fd: openSync(pathOf(name), 'r+'), syncs: 0, isLeft: true }
      file.syncs++
      try {
        await syncData(file.fd)
      } finally {
        file.syncs--
        closeWhenUnused(file)
      }
    },
    async syncDirectory() {
      await using handle = await open(directory, 'r')
      await handle.sync()
    },
    truncate: (name, length) => truncateSync(pathOf(name), length),
    remove(name, done) {
      if (current?.name === name) release()
      // Asynchronous: while PostgreSQL syncs the same file system, unlink takes up to 20 ms, and every
      // request would wait for it.
      unlink(pathOf(name), done)
    },
    rename(name, newName, done) {
      if (current?.name === name) release()
      rename(pathOf(name), pathOf(newName), done)
    },
    close: release,
  }
}

interface OpenFile {
  readonly name: string
  readonly fd: number
  /** Running syncs. While there is one, the descriptor must stay open: another file could get the same number. */
  syncs: number
  /** Nothing appends to the file any more. */
  isLeft: boolean
}

function closeWhenUnused(file: OpenFile): void {
  if (file.isLeft && file.syncs === 0) closeSync(file.fd)
}

const syncData = promisify(fdatasync)

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
   * Whether they are exact: written on this disk since the machine started. After a loss of power, and in a copy that was
   * made while the original ran, they may be older or newer than the segments.
   */
  readonly areExact: boolean
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

const NAME = 'sizes'

/** @param identity of the directory: see fileIdentity */
export function createSizesFile(directory: string, identity: string | undefined): SizesFile {
  const path = join(directory, NAME)
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

/** One line for each segment, and a checksum of them. What follows in the file is the end of an earlier, longer text. */
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
