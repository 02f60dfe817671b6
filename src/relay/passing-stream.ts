import type { Envelope } from '../dialects/chat/envelope.ts'
import { encodeChunk, textChunk, textEncoder } from '../dialects/chat/sse-encode.ts'
import type { ChatJob } from '../domain/chat-job.ts'
import type { ChatChunk, TokenUsage } from '../domain/completion.ts'
import type { StreamPart } from '../domain/handoff.ts'
import { OutputMeter } from './output-meter.ts'
import type { TextBuffer } from './text-buffer.ts'

/** A stream on its way to the client: makes events of its parts, and keeps of them what its bill needs. */
export class PassingStream {
  /** The upstream's last report of usage. */
  reported: TokenUsage | null = null
  finishReason: string | null = null
  /** It has outgrown max_tokens, which the upstream ignores. The hold covers no more than that, so the answer has ended, as `length`. */
  isCut = false
  readonly #envelope: Envelope
  readonly #job: ChatJob
  readonly #meter: OutputMeter
  readonly #encodeText: (text: string) => string
  /** The choices that have begun and not ended. */
  readonly #open = new Set<number>()

  /** `maxTokens` as the ticket allows, per choice. */
  constructor(envelope: Envelope, job: ChatJob, maxTokens: number) {
    this.#envelope = envelope
    this.#job = job
    this.#meter = new OutputMeter(maxTokens * job.choices)
    this.#encodeText = textEncoder(envelope, job.includeUsage)
  }

  /** Everything that was generated so far. */
  get text(): TextBuffer {
    return this.#meter.text
  }

  /** The events of these parts, up to where the answer is cut. To be called until then, and not after it. */
  framesOf(parts: readonly StreamPart[]): string {
    let frames = ''
    for (const part of parts) {
      if (typeof part === 'string') this.#meter.addText(part)
      else {
        if (part.usage) this.reported = part.usage
        if (part.choices.length === 0) continue
        this.#note(part)
        if (this.#job.includeUsage) part.usage = null
      }
      if (this.#meter.isOverLimit()) {
        this.isCut = true
        this.finishReason = 'length'
        return frames + this.#cutOff(typeof part === 'string' ? textChunk(this.#envelope, part) : part)
      }
      frames += typeof part === 'string' ? this.#encodeText(part) : encodeChunk(part)
    }
    return frames
  }

  #note({ choices }: ChatChunk): void {
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

  /** The chunk as the last of its answer, and one for each other choice that is still open: SDKs fail on one that never ends. */
  #cutOff(chunk: ChatChunk): string {
    const usage = this.#job.includeUsage ? { usage: null } : {}
    for (const { index } of chunk.choices) this.#open.delete(index)
    const last = chunk.choices.map(choice => ({ ...choice, finish_reason: 'length' as const }))
    let frames = encodeChunk({ ...chunk, choices: last, ...usage })
    for (const index of this.#open) {
      frames += encodeChunk({ ...chunk, choices: [{ index, delta: {}, finish_reason: 'length' }], ...usage })
    }
    return frames
  }
}
