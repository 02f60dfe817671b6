import { crc32 } from 'node:zlib'

/** Before each payload: its length and its CRC-32, both unsigned, 32 bits, little-endian. */
export const headerBytes = 8

/** The longest payload. It lets a damaged length be seen as one, since almost all of them are longer. */
export const payloadBytesMax = 1 << 20

/** Records on their way to the disk, framed one behind the other in memory that is used again for the next batch. */
export interface RecordBatch {
  /** Bytes of all records in it, headers included. */
  readonly length: number
  /** Frames one record, text as UTF-8. Throws RangeError when it is empty or longer than `payloadBytesMax`. */
  add(payload: string | Uint8Array): void
  /** Drops what was added since `length` had this value. */
  cut(length: number): void
  /** The records as they go to the disk, and an empty batch. The bytes stay as they are until the next `add`. */
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
      // A character of a string becomes three bytes at most. Counting them first would walk the text twice.
      reserve(headerBytes + payload.length * (typeof payload === 'string' ? 3 : 1))
      const start = length + headerBytes
      let end = start
      if (typeof payload === 'string') end += memory.write(payload, start)
      else {
        memory.set(payload, start)
        end += payload.length
      }
      // A length of 0 with a sum of 0 is what a file full of zeros reads as, and file systems leave such files after a loss of power.
      if (end === start) throw new RangeError('A journal record has at least one byte')
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
 * Reads records from the first byte on, up to one that is damaged or not whole. `end` is where that one starts, or the
 * length of `bytes`. The payloads are views into `bytes`.
 * It never looks for the next good record behind a bad one: the inside of a payload is somebody else's text, and could
 * be made to look like a record.
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

/** Whether something that reads as a whole record starts anywhere in `bytes`. Behind an unreadable place it tells damage from a tear. */
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
  return new RangeError(`A journal record has ${payloadBytesMax} bytes at most, not ${length}`)
}
