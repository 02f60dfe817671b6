import { ApiError, memoryUsedUp } from '../../base/domain/errors.ts'
import type { InFlight, Running } from '../in-flight.ts'
import { bodyTooLarge } from '../request-body.ts'

/** A part of a message of this size is not counted. */
const UNCOUNTED_BYTES = 16_384
/** What the heads of the frames of one message may take. */
const FRAMING_BYTES_MAX = 65_536
/** Each piece of a message takes memory of its own until the message is complete. Packets have more bytes. */
const PIECES_MAX = 8_192
const PIECE_BYTES_MIN = 512
/** The head of a ping or pong of a client. */
const CONTROL_HEAD_BYTES = 6
/** As long as node:http waits for a request. */
const ARRIVAL_MS_MAX = 30_000

/**
 * Counts the bytes of the message that arrives on a WebSocket: the library keeps them until the message is complete, and
 * knows no limit for all of them together. The memory belongs to the customer's share, like that of a body.
 */
export class IncomingBytes {
  readonly #inFlight: Pick<InFlight, 'open'>
  readonly #customerId: string
  readonly #limitBytes: number
  #bytes = 0
  #pieces = 0
  #countedBytes = 0
  #account: Running | null = null
  #sinceMs: number | null = null

  constructor(inFlight: Pick<InFlight, 'open'>, customerId: string, limitBytes: number) {
    this.#inFlight = inFlight
    this.#customerId = customerId
    this.#limitBytes = limitBytes
  }

  /** Counts a piece before the library gets it. Returns the error that must end the connection, or null. */
  add(bytes: number, nowMs: number): ApiError | null {
    this.#bytes += bytes
    this.#pieces++
    this.#sinceMs ??= nowMs
    if (this.#bytes > this.#limitBytes + FRAMING_BYTES_MAX) return bodyTooLarge(this.#limitBytes)
    if (this.#pieces > PIECES_MAX + this.#bytes / PIECE_BYTES_MIN) {
      return new ApiError('request_too_large', {
        message: 'The message comes in too many small pieces. Send larger ones.',
      })
    }
    return this.#bytes <= UNCOUNTED_BYTES ? null : this.#countUpTo(this.#bytes)
  }

  /** A ping or pong has come, perhaps inside of a message. */
  passControl(payloadBytes: number): void {
    this.#bytes = Math.max(0, this.#bytes - payloadBytes - CONTROL_HEAD_BYTES)
    if (this.#bytes === 0) this.#sinceMs = null
  }

  /** The message is complete. Returns the account of its memory, which the caller must leave, or its refusal. */
  complete(messageBytes: number): Running | ApiError {
    const account = this.#open()
    const refusal = this.#countUpTo(messageBytes)
    this.#account = null
    this.#bytes = 0
    this.#pieces = 0
    this.#countedBytes = 0
    this.#sinceMs = null
    if (refusal === null) return account
    account.leave()
    return refusal
  }

  /** Whether a message has been arriving for too long. */
  isLate(nowMs: number): boolean {
    return this.#sinceMs !== null && nowMs - this.#sinceMs > ARRIVAL_MS_MAX
  }

  close(): void {
    this.#account?.leave()
    this.#account = null
  }

  #open(): Running {
    this.#account ??= this.#inFlight.open(this.#customerId)
    return this.#account
  }

  #countUpTo(bytes: number): ApiError | null {
    const { memory } = this.#open()
    const missing = bytes - this.#countedBytes
    if (missing <= 0) return null
    if (!memory.take(missing)) return memoryUsedUp(memory)
    this.#countedBytes = bytes
    return null
  }
}
