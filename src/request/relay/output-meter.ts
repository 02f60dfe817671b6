import type { ChunkDelta } from '../../base/domain/completion.ts'
import { Cancelled } from '../../base/domain/upstream-failure.ts'
import { type ByteAccount, TextBuffer } from '../../base/runtime/counted-memory.ts'
import { countTokens } from '../../wire/tokens/count-tokens.ts'
import { eachGeneratedText, hasMedia } from './generated-text.ts'
import { lengthWithin, textSize, tokensWithSlack, uncountedSize } from './output-limit.ts'

/**
 * Collects the generated text, so that its tokens can be counted when the upstream reports none, and detects
 * an answer that exceeds its limit. Counting costs 0.03 to 1 us per character, so it happens only when a cheap
 * test shows that the limit may be exceeded: more pieces than allowed tokens, or a text that is long for them.
 */
export class OutputMeter {
  /** The text so far. */
  readonly text: TextBuffer
  /** A delta carried audio or images. */
  hasMedia = false
  readonly #tokensMax: number
  readonly #uncountedSize: number
  #pieces = 0
  #size = 0
  #countedChars = 0
  #countedTokens = 0
  #countedCharsMax = 0

  /** @param account pays for the memory of the text */
  constructor(tokensMax: number, account: ByteAccount) {
    this.text = new TextBuffer(account)
    this.#tokensMax = tokensMax
    this.#uncountedSize = uncountedSize(tokensMax)
  }

  /** Adds the generated text of one delta. Throws Cancelled `memory_used_up`. */
  add(delta: ChunkDelta): void {
    eachGeneratedText(delta, text => this.addText(text))
    this.hasMedia ||= hasMedia(delta)
  }

  addText(content: string): void {
    if (!this.text.append(content)) throw new Cancelled('memory_used_up', true)
    this.#pieces++
    this.#size += textSize(content, this.#tokensMax)
  }

  /**
   * Allows `limitPosition` to count some more of the text. Call it for pieces that arrived together, and again later
   * while `isBehind`: a hostile megabyte would hold the event loop for a second.
   */
  beginCounting(): void {
    this.#countedCharsMax = this.#countedChars + COUNTED_CHARS_MAX
  }

  /** Whether `limitPosition` left a part of the text uncounted that may exceed the limit. */
  get isBehind(): boolean {
    return this.text.length - this.#countedChars >= SLICE_CHARS && this.#mayExceed
  }

  get #mayExceed(): boolean {
    return this.#pieces > this.#tokensMax || this.#size > this.#uncountedSize
  }

  /**
   * Returns where the text must be cut because it clearly exceeds the limit, in UTF-16 units; null while it does
   * not. Must not be called again after the cut.
   */
  limitPosition(): number | null {
    if (!this.#mayExceed) return null
    const { length } = this.text
    const allowed = tokensWithSlack(this.#tokensMax)
    // Stops counting as soon as the result is certain, and leaves the rest of a long text for later.
    const end = Math.min(length, this.#countedCharsMax)
    while (end - this.#countedChars >= SLICE_CHARS) {
      const slice = this.text.slice(this.#countedChars, this.#countedChars + SLICE_CHARS)
      const tokens = countTokens(slice)
      if (this.#countedTokens + tokens > allowed) return this.#cutWithin(slice, allowed)
      this.#countedTokens += tokens
      this.#countedChars += SLICE_CHARS
    }
    return end === length ? this.#limitInRest(allowed) : null
  }

  /** The rest is shorter than a slice, and is counted only if it may matter: a token has at least one byte. */
  #limitInRest(allowed: number): number | null {
    const rest = this.text.slice(this.#countedChars, this.text.length)
    if (this.#countedTokens + Buffer.byteLength(rest) <= allowed) return null
    return this.#countedTokens + countTokens(rest) > allowed ? this.#cutWithin(rest, allowed) : null
  }

  #cutWithin(slice: string, allowed: number): number {
    return this.#countedChars + lengthWithin(slice, allowed - this.#countedTokens)
  }
}

const SLICE_CHARS = 200
/** At a time. Takes 0.2 ms for prose and 8 ms for the slowest text found. */
const COUNTED_CHARS_MAX = 32 * SLICE_CHARS
