import type { StreamEncoder } from '../dialects/client-dialect.ts'
import { answerBounds } from '../domain/answer-bounds.ts'
import type { ChatJob } from '../domain/chat-job.ts'
import type { ChatChunk, TokenUsage } from '../domain/completion.ts'
import type { StreamPart } from '../domain/handoff.ts'
import type { ByteAccount } from '../runtime/byte-budget.ts'
import { hasOtherFields } from './generated-text.ts'
import { OutputMeter } from './output-meter.ts'
import type { TextBuffer } from './text-buffer.ts'

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
  readonly #encoder: StreamEncoder
  readonly #includeUsage: boolean
  readonly #meter: OutputMeter
  /** What chunks with fields other than text may have, in bytes. They are not counted as tokens. */
  #otherBytesLeft: number
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
    for (const part of parts) {
      if (typeof part === 'string') this.#meter.addText(part)
      else {
        if (part.usage) this.reported = part.usage
        if (part.choices.length === 0) continue
        this.#track(part)
        if (this.#includeUsage) part.usage = null
      }
      if (this.#meter.isOverLimit()) {
        this.isCut = true
        this.finishReason = 'length'
        return events + this.#cutOff(typeof part === 'string' ? this.#encoder.textChunk(part) : part)
      }
      const encoded = typeof part === 'string' ? this.#encoder.text(part) : this.#encoder.chunk(part)
      if (typeof part !== 'string' && hasOtherFields(part)) {
        this.#otherBytesLeft -= encoded.length
        if (this.#otherBytesLeft < 0) {
          this.isCut = true
          this.finishReason = 'length'
          return (
            events +
            this.#cutOff({
              ...part,
              choices: part.choices.map(({ index }) => ({ index, delta: {}, finish_reason: null })),
            })
          )
        }
      }
      events += encoded
    }
    return events
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
   * Ends the answer with this chunk. Every other open choice gets a last chunk too, because SDKs fail on a
   * choice that never ends.
   */
  #cutOff(chunk: ChatChunk): string {
    const usage = this.#includeUsage ? { usage: null } : {}
    for (const { index } of chunk.choices) this.#open.delete(index)
    const last = chunk.choices.map(choice => ({ ...choice, finish_reason: 'length' as const }))
    let events = this.#encoder.chunk({ ...chunk, choices: last, ...usage })
    for (const index of this.#open) {
      events += this.#encoder.chunk({ ...chunk, choices: [{ index, delta: {}, finish_reason: 'length' }], ...usage })
    }
    return events
  }
}
