import { Cancelled, UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { type ByteAccount, ByteQueue } from '../../../base/runtime/counted-memory.ts'

/** One server-sent event. `event` is empty unless an `event:` line named it. */
export interface SseEvent {
  readonly event: string
  readonly data: string
}

const LF = 10
const CR = 13
const SPACE = 32
const COLON = 58
/**
 * The maximum number of `data` lines in one event. Each costs about 100 bytes of heap on top of its text, so
 * 16 MiB of empty lines took 0.5 GB.
 */
const LINES_MAX = 4_096
const nothing = Buffer.alloc(0)

/**
 * Decodes the bytes of an event stream into events, however they are split into pieces. Lines end in LF, CRLF
 * or CR. Splits lines before decoding, because CR and LF never occur inside a UTF-8 sequence, so a character
 * split over two reads is joined first. Throws UpstreamFailure `malformed` for a line or event that is too
 * large, and Cancelled `memory_used_up`.
 */
export class SseDecoder {
  /** The lines read so far. */
  lines = 0
  readonly #eventBytesMax: number
  readonly #account: ByteAccount
  /** The start of an incomplete line. */
  readonly #partialLine: ByteQueue
  #lineFeedMayFollow = false
  #firstLine = true
  #event = ''
  #data: string | null = null
  /** Bytes and `data` lines of the incomplete event. */
  #eventBytes = 0
  #dataLines = 0
  /** What `#account` pays for the incomplete event. */
  #paidBytes = 0

  /** @param account pays for the memory of incomplete lines and events */
  constructor(eventBytesMax: number, account: ByteAccount) {
    this.#eventBytesMax = eventBytesMax
    this.#account = account
    this.#partialLine = new ByteQueue(account)
  }

  /** Returns the events that `bytes` complete. */
  push(bytes: Buffer): SseEvent[] {
    const events: SseEvent[] = []
    let start = this.#lineFeedMayFollow && bytes[0] === LF ? 1 : 0
    if (bytes.length > 0) this.#lineFeedMayFollow = false
    let lf = bytes.indexOf(LF, start)
    let cr = bytes.indexOf(CR, start)
    while (lf !== -1 || cr !== -1) {
      const endsInCr = cr !== -1 && (lf === -1 || cr < lf)
      const end = endsInCr ? cr : lf
      this.#completeLine(bytes, start, end, events)
      start = end + 1
      if (endsInCr) {
        if (start === bytes.length) this.#lineFeedMayFollow = true
        else if (bytes[start] === LF) start += 1
        cr = bytes.indexOf(CR, start)
      }
      // Search again only when this LF is consumed: otherwise a buffer of CRs alone would be scanned once for
      // each CR.
      if (lf !== -1 && lf < start) lf = bytes.indexOf(LF, start)
    }
    if (start < bytes.length) this.#keepPartial(bytes, start, bytes.length)
    if (this.#eventBytes !== 0 || this.#paidBytes !== 0) this.#payForEvent()
    return events
  }

  /** Returns the event that the end of the stream completes: some upstreams omit the last blank line. */
  end(): SseEvent[] {
    const events: SseEvent[] = []
    if (this.#partialLine.length > 0) this.#completeLine(nothing, 0, 0, events)
    this.#dispatch(events)
    return events
  }

  #completeLine(bytes: Buffer, start: number, end: number, events: SseEvent[]): void {
    this.lines++
    if (this.#partialLine.length === 0) {
      this.#refuseAbove(this.#eventBytes + end - start)
      this.#readLine(bytes, start, end, events)
      return
    }
    this.#keepPartial(bytes, start, end)
    const line = this.#partialLine.take(this.#partialLine.length)
    this.#readLine(line, 0, line.length, events)
  }

  #readLine(bytes: Buffer, lineStart: number, end: number, events: SseEvent[]): void {
    let start = lineStart
    if (this.#firstLine) {
      this.#firstLine = false
      if (bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf) start += 3
    }
    if (start >= end) {
      this.#dispatch(events)
      return
    }
    if (bytes[start] === COLON) return
    this.#eventBytes += end - lineStart
    if (isDataField(bytes, start, end)) this.#addData(fieldValue(bytes, start + 5, end))
    else this.#readRareField(bytes.toString('utf8', start, end))
  }

  #readRareField(line: string): void {
    const colon = line.indexOf(':')
    const name = colon === -1 ? line : line.slice(0, colon)
    const value = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
    if (name === 'event') this.#event = value
    else if (name === 'data') this.#addData(value)
    else if (name === 'error') {
      // llama.cpp before September 2025 sent errors in an `error:` field (llama.cpp issue 16109).
      this.#event = 'error'
      this.#addData(value)
    }
  }

  #addData(text: string): void {
    if (++this.#dataLines > LINES_MAX) {
      throw new UpstreamFailure('malformed', `An event of the stream has more than ${LINES_MAX} lines.`)
    }
    this.#data = this.#data === null ? text : `${this.#data}\n${text}`
  }

  #dispatch(events: SseEvent[]): void {
    if (this.#data !== null) events.push({ event: this.#event, data: this.#data })
    this.#data = null
    this.#event = ''
    this.#eventBytes = 0
    this.#dataLines = 0
  }

  #keepPartial(bytes: Buffer, start: number, end: number): void {
    this.#refuseAbove(this.#eventBytes + this.#partialLine.length + end - start)
    if (!this.#partialLine.add(bytes.subarray(start, end))) throw new Cancelled('memory_used_up', true)
  }

  /** An event that is complete at the end of a read costs nothing. A string has up to two bytes per character. */
  #payForEvent(): void {
    const bytes = this.#eventBytes * 2
    const more = bytes - this.#paidBytes
    if (more > 0 && !this.#account.take(more)) throw new Cancelled('memory_used_up', true)
    if (more < 0) this.#account.give(-more)
    this.#paidBytes = bytes
  }

  #refuseAbove(eventBytes: number): void {
    if (eventBytes <= this.#eventBytesMax) return
    throw new UpstreamFailure('malformed', `The stream has a line or event above ${this.#eventBytesMax} bytes.`)
  }
}

function isDataField(bytes: Buffer, start: number, end: number): boolean {
  return (
    end - start >= 5 &&
    bytes[start] === 100 && // d
    bytes[start + 1] === 97 && // a
    bytes[start + 2] === 116 && // t
    bytes[start + 3] === 97 && // a
    bytes[start + 4] === COLON
  )
}

function fieldValue(bytes: Buffer, start: number, end: number): string {
  return bytes.toString('utf8', start < end && bytes[start] === SPACE ? start + 1 : start, end)
}
