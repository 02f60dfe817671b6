import { crc32 } from 'node:zlib'

/**
 * The header before each payload: its length and its CRC-32, both 32-bit unsigned little-endian. The last byte of the
 * length is always 0.
 */
export const headerBytes = 8

/** The longest payload. Almost every damaged length is larger, so it is recognized as damaged. */
export const payloadBytesMax = 1 << 20

/** Collects framed records for one write to the disk. The memory is reused for the next batch. */
export interface RecordBatch {
  /** Bytes of all records in the batch, headers included. */
  readonly length: number
  /**
   * Adds a record, text as UTF-8. Throws RangeError when it is empty, longer than `payloadBytesMax` or has a byte 0.
   */
  add(payload: string | Uint8Array): void
  /** Drops the records that were added since `length` had this value. */
  cut(length: number): void
  /** Returns the framed records and empties the batch. The bytes are valid until the next `add`. */
  take(): Buffer
}

export function createRecordBatch(): RecordBatch {
  let memory = Buffer.allocUnsafe(1 << 16)
  let length = 0
  const reserve = (bytes: number) => {
    if (length + bytes <= memory.length) return
    const larger = Buffer.allocUnsafe(2 ** Math.ceil(Math.log2(length + bytes)))
    memory.copy(larger, 0, 0, length)
    memory = larger
  }
  return {
    get length() {
      return length
    },
    add(payload) {
      if (payload.length > payloadBytesMax) throw tooLong(payload.length)
      // A UTF-16 unit becomes three bytes at most. Counting the bytes first would walk the text twice.
      reserve(headerBytes + payload.length * (typeof payload === 'string' ? 3 : 1))
      const start = length + headerBytes
      let end = start
      if (typeof payload === 'string') end += memory.write(payload, start)
      else {
        memory.set(payload, start)
        end += payload.length
      }
      // A file full of zeros reads as records of length 0 with checksum 0, and file systems leave such files
      // after a loss of power.
      if (end === start) throw new RangeError('A journal record must have at least one byte')
      if (end - start > payloadBytesMax) throw tooLong(end - start)
      const written = memory.subarray(start, end)
      if (written.includes(0)) throw new RangeError('A journal record must not have a byte 0')
      memory.writeUInt32LE(end - start, length)
      memory.writeUInt32LE(crc32(written), length + 4)
      length = end
    },
    cut(to) {
      length = to
    },
    take() {
      const taken = memory.subarray(0, length)
      length = 0
      return taken
    },
  }
}

/** A part of a file, in bytes. */
export interface ByteRange {
  readonly offset: number
  readonly bytes: number
}

export interface RecordScan {
  /** Each with the offset of its header. The payloads are views into the scanned bytes. */
  readonly records: readonly { readonly offset: number; readonly payload: Buffer }[]
  /** What lies between two records and belongs to none. Normally empty. */
  readonly damages: readonly ByteRange[]
  /** Where the last record ends. */
  readonly end: number
  /** What follows the last record: nothing, a record that was not written whole, or damage. */
  readonly tail: 'none' | 'torn' | 'damaged'
}

/**
 * Reads the records of a file. After a damaged one it goes on with the next record, which it finds although payloads
 * contain text of clients: the header of every record has a byte 0, and no payload has one.
 */
export function scanRecords(bytes: Buffer): RecordScan {
  const records: { offset: number; payload: Buffer }[] = []
  const damages: ByteRange[] = []
  let end = 0
  for (;;) {
    let offset = end
    let payload = readRecord(bytes, offset)
    while (payload === undefined && ++offset + headerBytes < bytes.length) payload = readRecord(bytes, offset)
    if (payload === undefined) break
    if (offset > end) damages.push({ offset: end, bytes: offset - end })
    records.push({ offset, payload })
    end = offset + headerBytes + payload.length
  }
  return { records, damages, end, tail: end === bytes.length ? 'none' : isTorn(bytes, end) ? 'torn' : 'damaged' }
}

function readRecord(bytes: Buffer, offset: number): Buffer | undefined {
  const start = offset + headerBytes
  if (start > bytes.length) return undefined
  const length = bytes.readUInt32LE(offset)
  if (length === 0 || length > payloadBytesMax || start + length > bytes.length) return undefined
  const payload = bytes.subarray(start, start + length)
  // Checked first, because random bytes soon have a 0: a search in 4 MiB of them would otherwise take seconds.
  if (payload.includes(0)) return undefined
  return crc32(payload) === bytes.readUInt32LE(offset + 4) ? payload : undefined
}

/**
 * Whether the bytes from `offset` on are the beginning of a record that goes on beyond the end of the file. A loss of
 * power may also leave zeros.
 */
function isTorn(bytes: Buffer, offset: number): boolean {
  if (bytes.length - offset < headerBytes) return true
  const length = bytes.readUInt32LE(offset)
  return length === 0 || offset + headerBytes + length > bytes.length
}

function tooLong(length: number): RangeError {
  return new RangeError(`A journal record can have at most ${payloadBytesMax} bytes, not ${length}`)
}
