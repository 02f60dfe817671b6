import { crc32 } from 'node:zlib'
import { Cancelled, UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { type ByteAccount, ByteQueue } from '../../../base/runtime/counted-memory.ts'
import type { SseEvent } from '../sse/sse-decoder.ts'

/** The length of the frame, that of its headers, and a checksum of both; each has four bytes. */
const PRELUDE_BYTES = 12
const CHECKSUM_BYTES = 4
const FRAME_BYTES_MIN = PRELUDE_BYTES + CHECKSUM_BYTES
/** Bedrock sends three short headers. */
const HEADERS_BYTES_MAX = 4_096
const STRING_TYPE = 7
/** The bytes of the values of all other types; binary values (6) have a length like strings. */
const valueBytes: Readonly<Record<number, number>> = { 0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16 }

/**
 * Decodes `application/vnd.amazon.eventstream`, AWS's binary stream of frames, into events, however the bytes are
 * split. An event is named after its type, and `error:` with its name if it is an exception. Throws UpstreamFailure
 * `malformed` for a frame that is damaged or too large, before it is buffered, and Cancelled `memory_used_up`.
 */
export class EventStreamDecoder {
  /** The frames read so far. */
  lines = 0
  readonly #eventBytesMax: number
  /** The start of an incomplete frame. */
  readonly #partial: ByteQueue

  /** @param account pays for the memory of incomplete frames */
  constructor(eventBytesMax: number, account: ByteAccount) {
    this.#eventBytesMax = eventBytesMax
    this.#partial = new ByteQueue(account)
  }

  /** Returns the events that `bytes` complete. */
  push(bytes: Buffer): SseEvent[] {
    const events: SseEvent[] = []
    if (this.#partial.length === 0) {
      const read = this.#readFrames(bytes, events)
      if (read < bytes.length) this.#keep(bytes.subarray(read))
      return events
    }
    this.#keep(bytes)
    this.#partial.take(this.#readFrames(this.#partial.bytes, events))
    return events
  }

  /** An incomplete frame at the end is a cut, which the reader of the events notices. */
  end(): SseEvent[] {
    return []
  }

  /** Returns how many bytes were read. */
  #readFrames(bytes: Buffer, events: SseEvent[]): number {
    let at = 0
    while (bytes.length - at >= PRELUDE_BYTES) {
      const length = this.#frameBytes(bytes, at)
      if (bytes.length - at < length) break
      const event = readFrame(bytes.subarray(at, at + length))
      if (event !== null) events.push(event)
      this.lines++
      at += length
    }
    return at
  }

  #frameBytes(bytes: Buffer, at: number): number {
    const [length, headersLength] = [bytes.readUInt32BE(at), bytes.readUInt32BE(at + 4)]
    if (crc32(bytes.subarray(at, at + 8)) !== bytes.readUInt32BE(at + 8)) throw malformed('has a damaged frame')
    if (headersLength > HEADERS_BYTES_MAX || FRAME_BYTES_MIN + headersLength > length)
      throw malformed('has a frame with headers of an impossible length')
    if (length > this.#eventBytesMax) throw malformed(`has a frame above ${this.#eventBytesMax} bytes`)
    return length
  }

  #keep(bytes: Buffer): void {
    if (!this.#partial.add(bytes)) throw new Cancelled('memory_used_up', true)
  }
}

/** Returns null for messages that are neither events nor errors. */
function readFrame(frame: Buffer): SseEvent | null {
  const end = frame.length - CHECKSUM_BYTES
  if (crc32(frame.subarray(0, end)) !== frame.readUInt32BE(end)) throw malformed('has a damaged frame')
  const headersEnd = PRELUDE_BYTES + frame.readUInt32BE(4)
  const headers = readHeaders(frame.subarray(PRELUDE_BYTES, headersEnd))
  const data = frame.toString('utf8', headersEnd, end)
  switch (headers.get(':message-type')) {
    case 'event':
      return { event: headers.get(':event-type') ?? '', data }
    case 'exception':
      return { event: `error:${headers.get(':exception-type') ?? ''}`, data }
    case 'error': {
      const message = headers.get(':error-message') ?? ''
      return { event: `error:${headers.get(':error-code') ?? ''}`, data: JSON.stringify({ message }) }
    }
    default:
      return null
  }
}

/** Returns the headers with text values. */
function readHeaders(bytes: Buffer): Map<string, string> {
  const headers = new Map<string, string>()
  let at = 0
  const take = (length: number): Buffer => {
    if (at + length > bytes.length) throw malformed('has a header that does not fit into its frame')
    at += length
    return bytes.subarray(at - length, at)
  }
  while (at < bytes.length) {
    const name = take(take(1).readUInt8()).toString('latin1')
    const type = take(1).readUInt8()
    const fixed = valueBytes[type]
    if (fixed === undefined && type !== STRING_TYPE && type !== 6) throw malformed('has a header of an unknown type')
    const value = take(fixed ?? take(2).readUInt16BE())
    if (type === STRING_TYPE) headers.set(name, value.toString('utf8'))
  }
  return headers
}

function malformed(what: string): UpstreamFailure {
  return new UpstreamFailure('malformed', `The stream ${what}.`)
}
