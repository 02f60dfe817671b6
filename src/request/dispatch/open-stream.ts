import { setTimeout as delay } from 'node:timers/promises'
import type { Envelope, TokenUsage } from '../../base/domain/completion.ts'
import type { ChunkSource, StreamPart, TakeParts } from '../../base/domain/handoff.ts'
import type { AnswerBounds } from '../../base/domain/request-bounds.ts'
import { Cancelled, UpstreamFailure } from '../../base/domain/upstream-failure.ts'
import { type ByteAccount, ByteQueue } from '../../base/runtime/counted-memory.ts'
import type { RatePool } from '../../base/runtime/rate-pool.ts'
import { chatReader, completionAsStream } from '../../wire/dialects/chat/chat-reader.ts'
import { hasContent, hasText } from '../../wire/dialects/chat/content.ts'
import { type EmptyAnswer, type ExpectedAnswer, judgeEmptyStream } from '../../wire/dialects/chat/finish.ts'
import { SseDecoder, type SseEvent } from '../../wire/dialects/sse/sse-decoder.ts'
import type { AnswerReader, EventDecoder, StreamNormaliser } from '../../wire/dialects/upstream-task.ts'
import { tooLarge } from '../../wire/upstreams/connection-failure.ts'
import { rejectUnreadable } from '../../wire/upstreams/response-parser.ts'
import type { UpstreamClient, UpstreamRequest } from '../../wire/upstreams/upstream-client.ts'
import type { UpstreamExchange } from '../../wire/upstreams/upstream-exchange.ts'
import { classifyResponse } from './classify-response.ts'

/**
 * How a stream ended: `complete`, `suspect` if it is complete without output (see EmptyAnswer), `left` by its
 * reader, or the failure that broke it.
 */
export type StreamEnding = 'complete' | 'suspect' | 'left' | UpstreamFailure

export interface StreamWatcher {
  /** Called at the first content: from now on the stream is an answer. */
  onContent(): void
  /**
   * Called once, after `onContent`, with the last usage report. Not called when the chunks are neither read
   * nor left.
   */
  onEnd(ending: StreamEnding, usage: TokenUsage | null): void
}

/** A request and how its answer is read: the fields of an attempt that a stream needs. */
interface AskedStream {
  readonly request: UpstreamRequest
  readonly reader: AnswerReader
  readonly envelope: Envelope
  readonly expected: ExpectedAnswer
}

/**
 * Opens a stream and waits for its first content. Throws UpstreamFailure for a failure before that, while the
 * client has seen nothing. Resolves with all chunks from the first one. Leaving them early aborts the
 * upstream; a failure after the first content rejects `read`.
 */
export async function openStream(
  upstream: UpstreamClient,
  asked: AskedStream,
  watcher: StreamWatcher,
): Promise<ChunkSource> {
  const { request } = asked
  const exchange = await upstream.send(request)
  const resources = { memory: request.memory, parsingPool: upstream.parsingPool(request) }
  const chunks = new ChunkReader(exchange, resources, asked, watcher)
  await chunks.answering
  return chunks
}

/** Turns the bytes of one exchange into chunks, and ends the exchange when either side stops. */
class ChunkReader implements ChunkSource {
  /** Resolves at the first content; rejects with UpstreamFailure when there will be none. */
  readonly answering: Promise<void>
  readonly #exchange: UpstreamExchange
  readonly #memory: ByteAccount
  readonly #bounds: AnswerBounds
  readonly #decoder: EventDecoder
  readonly #rate: ParsingRate
  #readBytes = 0
  #normaliser: StreamNormaliser
  readonly #watcher: StreamWatcher
  readonly #ended: Promise<void>
  /** Chunks that arrived before `read` was called. */
  #peeked: StreamPart[] = []
  /** The length of the events that they were made of. */
  #peekedUnits = 0
  #take: TakeParts | null = null
  #isAnswering = false
  /** Something else than reasoning has arrived. */
  #hasText = false
  #hasLeft = false
  /**
   * While this is pending, no chunks may be delivered: `read` was not called yet, or its reader is not ready
   * for more.
   */
  #pause: void | Promise<void> = undefined
  readonly #answering = Promise.withResolvers<void>()
  readonly #reading = Promise.withResolvers<void>()

  constructor(
    exchange: UpstreamExchange,
    { memory, parsingPool }: { memory: ByteAccount; parsingPool: RatePool },
    { reader, envelope, expected }: AskedStream,
    watcher: StreamWatcher,
  ) {
    const { bounds } = expected
    this.#exchange = exchange
    this.#memory = memory
    this.#rate = new ParsingRate(parsingPool)
    this.#bounds = bounds
    this.#decoder = reader.eventDecoder?.(bounds.eventBytes, memory) ?? new SseDecoder(bounds.eventBytes, memory)
    this.#normaliser = reader.stream(envelope, expected)
    this.#watcher = watcher
    this.answering = this.#answering.promise
    this.#ended = this.#readToEnd(reader, envelope, expected)
    // Failures reach the reader through `read`, and before the first content through `answering`.
    this.#ended.catch(() => {})
    this.#reading.promise.catch(() => {})
  }

  read(take: TakeParts): Promise<void> {
    this.#take = take
    const peeked = this.#peeked
    this.#peeked = []
    // Called in an async function, so that an exception of `take` becomes a rejection.
    this.#reading.resolve((async () => take(peeked))())
    return this.#ended
  }

  leave(): void {
    this.#hasLeft = true
    this.#exchange.abort()
  }

  get usage(): TokenUsage | null {
    return this.#normaliser.usage
  }

  /** The `finally` ends the exchange on every path. */
  async #readToEnd(reader: AnswerReader, envelope: Envelope, expected: ExpectedAnswer): Promise<void> {
    const exchange = this.#exchange
    let ending: StreamEnding = 'left'
    try {
      try {
        if (exchange.head.status !== 200) throw classifyResponse(exchange.head, await exchange.readText())
        rejectUnreadable(exchange.head)
        await this.#readBody(reader, envelope, expected)
      } catch (error) {
        const isWhole = this.#normaliser.complete && (this.#isAnswering || !(error instanceof Cancelled))
        if (!(isWhole && error instanceof UpstreamFailure) || this.#hasLeft) throw error
      }
      await this.#deliver(this.#normaliser.end())
      const empty = this.#isAnswering ? null : judgeEmptyStream(this.#peeked, expected)
      if (empty !== null) await this.#endEmpty(empty)
      ending = empty === 'suspect' ? 'suspect' : 'complete'
    } catch (error) {
      this.#answering.reject(error)
      if (this.#hasLeft) return
      if (error instanceof UpstreamFailure) ending = error
      throw error
    } finally {
      if (ending === 'complete' || ending === 'suspect') exchange.release()
      else exchange.abort()
      if (this.#isAnswering) this.#watcher.onEnd(ending, this.#normaliser.usage)
    }
  }

  /**
   * The first bytes of the body decide whether it is a stream, not its content type: proxies label event
   * streams `application/json` (vLLM Ascend pull request 6985, foundry-dev-tools issue 195) and whole answers
   * `text/event-stream` (9router pull request 3301).
   */
  async #readBody(reader: AnswerReader, envelope: Envelope, expected: ExpectedAnswer): Promise<void> {
    const decoder = this.#decoder
    const body = new ByteQueue(this.#memory)
    let form: Form = null
    await this.#exchange.read(piece => {
      this.#readBytes += piece.length + PIECE_BYTES
      if (form === 'events') return this.#readEvents(decoder.push(piece))
      form ??= detectForm(piece)
      if (form === 'events') return this.#readEvents(decoder.push(piece))
      // Nothing before the form is known has a meaning.
      if (form === 'whole' && !body.add(piece)) throw new Cancelled('memory_used_up', true)
      if ((form === null ? this.#readBytes : body.length) > this.#bounds.wholeBytes)
        throw tooLarge(this.#bounds.wholeBytes)
      return this.#paced()
    })
    await this.#pause
    if (form !== 'whole') return this.#readEvents(decoder.end())
    const completion = reader.whole(body.toString(), envelope, expected)
    this.#normaliser = chatReader.stream(envelope, expected)
    await this.#deliver(completionAsStream(completion, this.#normaliser))
  }

  #readEvents(events: readonly SseEvent[]): void | Promise<void> {
    if (!this.#isAnswering) this.#exchange.lifeSeen()
    const normaliser = this.#normaliser
    const wasComplete = normaliser.complete
    const parts: StreamPart[] = []
    try {
      this.#refuseFlood()
      for (const event of events) {
        const text = normaliser.text(event)
        if (text !== null) parts.push(text)
        else {
          const chunks = normaliser.push(event)
          if (chunks.length > 0 && !this.#isAnswering) this.#payForPeeked(event.data.length)
          parts.push(...chunks)
        }
      }
    } catch (error) {
      // Parts before the failure in the same read still count.
      return (async () => {
        await this.#deliver(parts)
        throw error
      })()
    }
    this.#pause = this.#deliver(parts)
    if (!this.#hasText && parts.some(hasText)) this.#startText()
    if (wasComplete && parts.length > 0) this.#exchange.answerResumed()
    if (normaliser.done) this.#exchange.release()
    // Some servers send finish_reason in every chunk, including the role chunk. Before the first content the
    // first-token limit stays in force.
    else if (normaliser.awaitsUsage && this.#isAnswering) this.#exchange.answerComplete()
    const paced = this.#paced()
    if (paced !== undefined) this.#pause = Promise.all([this.#pause, paced]).then(() => {})
    return this.#pause
  }

  /** Waits if the stream has used up its share. */
  #paced(): void | Promise<void> {
    const waitMs = this.#rate.waitMs(this.#parsedUnits + (this.#readBytes >> 8))
    if (waitMs > 0) return delay(waitMs)
  }

  /** What was parsed so far, in units of one delimiter or line. */
  get #parsedUnits(): number {
    return this.#normaliser.delimiters + this.#decoder.lines
  }

  #refuseFlood(): void {
    if (this.#parsedUnits <= this.#bounds.streamDelimiters) return
    throw new UpstreamFailure('malformed', 'The stream has more lines and JSON than its answer can need.')
  }

  /** Chunks without content wait for the first content. A stream may not fill the memory with them. */
  #payForPeeked(units: number): void {
    this.#peekedUnits += units
    if (this.#peekedUnits > 2 * this.#bounds.eventBytes) {
      throw new UpstreamFailure('malformed', 'The stream sends events without content.')
    }
    if (!this.#memory.take(units * 2)) throw new Cancelled('memory_used_up', true)
  }

  #deliver(parts: readonly StreamPart[]): void | Promise<void> {
    // A reader that left after everything had arrived gets no further parts.
    if (parts.length === 0 || this.#hasLeft) return
    if (this.#take !== null) return this.#take(parts)
    this.#peeked.push(...parts)
    if (!this.#isAnswering && parts.some(hasContent)) this.#startAnswering()
    if (this.#isAnswering) return this.#reading.promise
  }

  #startText(): void {
    this.#hasText = true
    this.#exchange.contentStarted(true)
  }

  #startAnswering(): void {
    this.#isAnswering = true
    this.#exchange.contentStarted(false)
    this.#watcher.onContent()
    this.#answering.resolve()
  }

  /** Ends a stream that had no content. */
  #endEmpty(empty: EmptyAnswer): Promise<void> {
    if (empty === 'invalid') throw new UpstreamFailure('empty', 'The stream ended without any output.')
    this.#startAnswering()
    return this.#reading.promise
  }
}

type Form = 'events' | 'whole' | null

/** Decides the form of a body by its first byte that is not blank. Returns null when there is none. */
function detectForm(bytes: Buffer): Form {
  let at = 0
  while (at < bytes.length && isBlankOrMark(bytes[at]!)) at++
  if (at === bytes.length) return null
  return bytes[at] === OPENING_BRACE || bytes[at] === OPENING_BRACKET ? 'whole' : 'events'
}

/** White space, which servers send to keep a connection alive, and the bytes of a byte order mark. */
function isBlankOrMark(byte: number): boolean {
  return (
    byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09 || byte === 0xef || byte === 0xbb || byte === 0xbf
  )
}

/** What a piece costs besides its bytes: some servers send chunks of one byte. */
const PIECE_BYTES = 256
const OPENING_BRACE = 123
const OPENING_BRACKET = 91

/**
 * What each stream may always use, per second. It cannot be saved up. An ordinary stream of 100 tokens a second needs
 * 5,000.
 */
const OWN_UNITS_PER_S = 8_192
/** The clock is read after this many units, which take about a millisecond. */
const UNITS_PER_CHECK = 1_024

/**
 * Limits the CPU that streams take, in units of about a microsecond: one delimiter of JSON, one line, or 256 bytes.
 * What a stream needs beyond its own share, it takes from the pool of its endpoint. When the pool is empty, it waits,
 * so that other requests run in between.
 */
export class ParsingRate {
  readonly #pool: RatePool
  #checkedUnits = 0
  #checkedMs = performance.now()

  constructor(pool: RatePool) {
    this.#pool = pool
  }

  /** Returns how long the stream must wait, in ms; nearly always 0. `units`: what was parsed so far. */
  waitMs(units: number): number {
    const used = units - this.#checkedUnits
    if (used <= UNITS_PER_CHECK) return 0
    const nowMs = performance.now()
    const excess = used - (Math.min(1_000, nowMs - this.#checkedMs) * OWN_UNITS_PER_S) / 1_000
    this.#checkedUnits = units
    this.#checkedMs = nowMs
    return excess <= 0 ? 0 : this.#pool.take(excess, nowMs)
  }
}
