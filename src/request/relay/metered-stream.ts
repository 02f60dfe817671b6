import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { ChatChunk, TokenUsage } from '../../base/domain/completion.ts'
import type { StreamPart } from '../../base/domain/handoff.ts'
import { answerBounds } from '../../base/domain/request-bounds.ts'
import type { ByteAccount, TextBuffer } from '../../base/runtime/counted-memory.ts'
import type { StreamEncoder } from '../../wire/dialects/client-dialect.ts'
import { TextCutter } from './cut-text.ts'
import { hasOtherFields } from './generated-text.ts'
import { OutputMeter } from './output-meter.ts'

/** Encodes a stream for the client and records what billing needs. */
export class MeteredStream {
  /** The upstream's last usage report. */
  reported: TokenUsage | null = null
  finishReason: string | null = null
  /**
   * Set when the text exceeds max_tokens because the upstream ignores the limit. The hold covers no more, so
   * the answer ends with `length`.
   */
  isCut = false
  /** While it is set, `catchUp` must be called now and then, and no further parts encoded. */
  isBehind = false
  readonly #encoder: StreamEncoder
  readonly #includeUsage: boolean
  readonly #meter: OutputMeter
  /** What chunks with fields other than text may have, in bytes. They are not counted as tokens. */
  #otherBytesLeft: number
  #last: StreamPart | null = null
  /** Choices that have started and not ended. */
  readonly #open = new Set<number>()

  /** @param maxTokens the limit that the upstream got, per choice */
  constructor(encoder: StreamEncoder, job: ChatJob, maxTokens: number, memory: ByteAccount) {
    this.#encoder = encoder
    this.#includeUsage = job.includeUsage
    this.#meter = new OutputMeter(maxTokens * job.choices, memory)
    this.#otherBytesLeft = answerBounds(job, maxTokens).otherBytes
  }

  /** All text generated so far. */
  get text(): TextBuffer {
    return this.#meter.text
  }

  get hasMedia(): boolean {
    return this.#meter.hasMedia
  }

  /**
   * Encodes the parts as events, up to the point where the answer is cut. Must not be called again after
   * `isCut`.
   */
  encode(parts: readonly StreamPart[]): string {
    let events = ''
    this.#meter.beginCounting()
    for (const part of parts) {
      this.#last = part
      const before = this.text.length
      if (typeof part === 'string') this.#meter.addText(part)
      else {
        if (part.usage) this.reported = part.usage
        if (part.choices.length === 0) continue
        this.#track(part)
        if (this.#includeUsage) part.usage = null
      }
      const limit = this.#meter.limitPosition()
      if (limit !== null) return events + this.#cutOff(part, limit - before)
      if (typeof part === 'string') {
        events += this.#encoder.text(part)
        continue
      }
      const encoded = this.#encoder.chunk(part)
      if (hasOtherFields(part)) this.#otherBytesLeft -= encoded.length
      if (this.#otherBytesLeft < 0) return events + this.#cutOff(part, 0)
      events += encoded
    }
    this.isBehind = this.#meter.isBehind
    return events
  }

  /** Counts more of a long text that was encoded. Returns the events of its cut, if it is too long. */
  catchUp(): string {
    this.#meter.beginCounting()
    const limit = this.#meter.limitPosition()
    this.isBehind = limit === null && this.#meter.isBehind
    return limit === null ? '' : this.#cutOff(this.#last!, 0)
  }

  #track({ choices }: ChatChunk): void {
    for (const { index, delta, finish_reason } of choices) {
      this.#meter.add(delta)
      if (finish_reason === null) {
        this.#open.add(index)
      } else {
        this.#open.delete(index)
        this.finishReason = finish_reason
      }
    }
  }

  /**
   * Ends the answer with the first `units` UTF-16 units of this part. The finish_reason of each open choice comes in
   * a chunk of its own, as OpenAI sends it. SDKs fail on a choice that never ends.
   */
  #cutOff(part: StreamPart, units: number): string {
    this.isCut = true
    this.finishReason = 'length'
    const chunk = typeof part === 'string' ? this.#encoder.textChunk(part) : part
    const usage = this.#includeUsage ? { usage: null } : {}
    const cutter = new TextCutter(Math.max(0, units))
    let events = ''
    for (const { index, delta } of chunk.choices) {
      this.#open.add(index)
      const kept = cutter.cut(delta)
      if (Object.keys(kept).length > 0) {
        events += this.#encoder.chunk({ ...chunk, choices: [{ index, delta: kept, finish_reason: null }], ...usage })
      }
    }
    for (const index of this.#open) {
      events += this.#encoder.chunk({ ...chunk, choices: [{ index, delta: {}, finish_reason: 'length' }], ...usage })
    }
    return events
  }
}
