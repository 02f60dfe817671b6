import { closeSync, constants, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { crc32 } from 'node:zlib'

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
        const [name, ...numbers] = line.split(' ')
        const [bytes, records, checksum] = numbers.map(Number)
        return [name!, { bytes: bytes!, records: records!, checksum: checksum! }]
      }),
  )
}
