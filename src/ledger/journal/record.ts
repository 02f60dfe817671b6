import { crc32 } from 'node:zlib'

/** The header before each payload: its length and its CRC-32, both 32-bit unsigned little-endian. */
export const headerBytes = 8

/** The longest payload. Almost every damaged length is larger, so it is recognized as damaged. */
export const payloadBytesMax = 1 << 20

/** Collects framed records for one write to the disk. The memory is reused for the next batch. */
export interface RecordBatch {
  /** Bytes of all records in the batch, headers included. */
  readonly length: number
  /** Adds a record, text as UTF-8. Throws RangeError when it is empty or longer than `payloadBytesMax`. */
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
      memory.writeUInt32LE(end - start, length)
      memory.writeUInt32LE(crc32(memory.subarray(start, end)), length + 4)
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

/**
 * Reads records from the first byte on, up to the first one that is damaged or incomplete. `end` is where
 * that one starts, or the length of `bytes`. The payloads are views into `bytes`. It does not search for the
 * next good record after a bad one: payloads contain text of clients, which could look like a record.
 */
export function scanRecords(bytes: Buffer): { payloads: Buffer[]; end: number } {
  const payloads: Buffer[] = []
  let end = 0
  for (;;) {
    const payload = readRecord(bytes, end)
    if (payload === undefined) return { payloads, end }
    payloads.push(payload)
    end += headerBytes + payload.length
  }
}

/**
 * Whether a whole record starts anywhere in `bytes`. A whole record after an unreadable place means damage; none
 * means a torn write.
 */
export function holdsRecord(bytes: Buffer): boolean {
  for (let offset = 0; offset + headerBytes < bytes.length; offset++)
    if (readRecord(bytes, offset) !== undefined) return true
  return false
}

function readRecord(bytes: Buffer, offset: number): Buffer | undefined {
  const start = offset + headerBytes
  if (start > bytes.length) return undefined
  const length = bytes.readUInt32LE(offset)
  if (length === 0 || length > payloadBytesMax || start + length > bytes.length) return undefined
  const payload = bytes.subarray(start, start + length)
  return crc32(payload) === bytes.readUInt32LE(offset + 4) ? payload : undefined
}

function tooLong(length: number): RangeError {
  return new RangeError(`A journal record can have at most ${payloadBytesMax} bytes, not ${length}`)
}
