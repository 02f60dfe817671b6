import type { ChunkDelta } from '../domain/completion.ts'
import { Cancelled } from '../domain/upstream-failure.ts'
import type { ByteAccount } from '../runtime/byte-budget.ts'
import { countTokens } from '../tokens/count-tokens.ts'
import { eachGeneratedText, hasMedia } from './generated-text.ts'
import { TextBuffer } from './text-buffer.ts'

/**
 * Collects the generated text, so that its tokens can be counted when the upstream reports none, and detects
 * an answer that exceeds its limit. Counting costs 0.03 to 1 us per character, so it happens only when a cheap
 * test shows that the limit may be exceeded: more pieces than allowed tokens, or more than eight characters
 * per allowed token.
 */
export class OutputMeter {
  /** The text so far. */
  readonly text: TextBuffer
  /** A delta carried audio or images. */
  hasMedia = false
  #pieces = 0
  #countedChars = 0
  #countedTokens = 0
  readonly #tokensMax: number

  /** @param account pays for the memory of the text */
  constructor(tokensMax: number, account: ByteAccount) {
    this.text = new TextBuffer(account)
    this.#tokensMax = tokensMax
  }

  /** Adds the generated text of one delta. Throws Cancelled `memory_used_up`. */
  add(delta: ChunkDelta): void {
    eachGeneratedText(delta, text => this.addText(text))
    this.hasMedia ||= hasMedia(delta)
  }

  addText(content: string): void {
    if (!this.text.append(content)) throw new Cancelled('memory_used_up', true)
    this.#pieces++
  }

  /**
   * Returns true once the text clearly has more tokens than allowed. The slack (a quarter plus eight tokens)
   * is for upstreams with a tokenizer that produces fewer tokens than the gateway's. The bill stays within the
   * limit in any case.
   */
  isOverLimit(): boolean {
    const { length } = this.text
    if (this.#pieces <= this.#tokensMax && length <= this.#tokensMax * 8) return false
    const clearlyOver = this.#tokensMax * 1.25 + 8
    // Stops counting as soon as the result is certain, and leaves the rest of a huge piece to the next call: a hostile
    // megabyte would hold the event loop for a second.
    const end = Math.min(length, this.#countedChars + COUNTED_CHARS_MAX)
    while (this.#countedTokens <= clearlyOver && end - this.#countedChars >= SLICE_CHARS) {
      this.#countedTokens += countTokens(this.text.slice(this.#countedChars, this.#countedChars + SLICE_CHARS))
      this.#countedChars += SLICE_CHARS
    }
    return this.#countedTokens > clearlyOver
  }
}

const SLICE_CHARS = 200
/** In one call. Takes 1 ms for prose and 30 ms for the slowest text found. */
const COUNTED_CHARS_MAX = 128 * SLICE_CHARS
