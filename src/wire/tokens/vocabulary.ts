import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

/** Returned by `rankOf` for bytes that are not a token. Greater than every rank. */
export const NO_RANK = 0x7fff_ffff

/**
 * A byte-pair vocabulary: the byte sequences that are tokens. The rank of a token is its id and its merge
 * priority; lower ranks merge first.
 *
 * All tokens lie in one array of bytes, found through a hash table: 8 MB. gpt-tokenizer's maps of strings take
 * 75 MB and are ten times slower on text with many merges, because every lookup decodes the bytes to a string.
 */
export class Vocabulary {
  readonly #bytes: Uint8Array
  /** Where each token starts in `#bytes`, and where the last one ends. */
  readonly #starts: Int32Array
  /** Open addressing. -1 marks a free slot. */
  readonly #slots: Int32Array
  readonly #longest: number

  /** @param tokens the tokens in the order of their ranks, joined, and where each starts and the last one ends */
  constructor(tokens: { readonly bytes: Uint8Array; readonly starts: Int32Array }) {
    this.#bytes = tokens.bytes
    this.#starts = tokens.starts
    const size = tokens.starts.length - 1
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(size * 2))).fill(-1)
    let longest = 0
    for (let rank = 0; rank < size; rank++) {
      const start = intAt(this.#starts, rank)
      const end = intAt(this.#starts, rank + 1)
      longest = Math.max(longest, end - start)
      let slot = this.#slotOf(this.#bytes, start, end)
      while (this.#slots[slot] !== -1) slot = (slot + 1) & (this.#slots.length - 1)
      this.#slots[slot] = rank
    }
    this.#longest = longest
  }

  /** Returns the rank of the token that consists of these bytes, or NO_RANK. */
  rankOf(bytes: Uint8Array, start: number, end: number): number {
    const length = end - start
    if (length > this.#longest) return NO_RANK
    const tokens = this.#bytes
    for (let slot = this.#slotOf(bytes, start, end); ; slot = (slot + 1) & (this.#slots.length - 1)) {
      const rank = intAt(this.#slots, slot)
      if (rank === -1) return NO_RANK
      const tokenStart = intAt(this.#starts, rank)
      if (intAt(this.#starts, rank + 1) - tokenStart !== length) continue
      let same = 0
      while (same < length && tokens[tokenStart + same] === bytes[start + same]) same++
      if (same === length) return rank
    }
  }

  /** How many tokens there are. */
  get size(): number {
    return this.#starts.length - 1
  }

  /** Returns the text of a token; bytes that are no UTF-8 become U+FFFD. */
  textOf(rank: number): string {
    return new TextDecoder().decode(this.#bytes.subarray(intAt(this.#starts, rank), intAt(this.#starts, rank + 1)))
  }

  /** FNV-1a. */
  #slotOf(bytes: Uint8Array, start: number, end: number): number {
    let hash = 0x811c9dc5
    for (let at = start; at < end; at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193)
    return (hash ^ (hash >>> 15)) & (this.#slots.length - 1)
  }
}

/** Reads OpenAI's o200k_base, 200,000 tokens. Takes 100 to 200 ms. */
export function readVocabulary(): Vocabulary {
  const path = createRequire(import.meta.url).resolve('gpt-tokenizer/data/o200k_base.tiktoken')
  return new Vocabulary(parseTokens(readFileSync(path, 'latin1')))
}

/** Parses lines that hold a token in base64, a space and its rank, in the order of the ranks. */
function parseTokens(text: string): { bytes: Uint8Array; starts: Int32Array } {
  const bytes = Buffer.alloc(text.length)
  const starts: number[] = []
  let length = 0
  // One line after the other: an array of all lines takes 20 MB, which the process never gives back.
  for (let at = 0; at < text.length; at = text.indexOf('\n', at) + 1 || text.length) {
    starts.push(length)
    length += bytes.write(text.slice(at, text.indexOf(' ', at)), length, 'base64')
  }
  starts.push(length)
  return { bytes: Uint8Array.from(bytes.subarray(0, length)), starts: Int32Array.from(starts) }
}

/** An element that is there: one assertion for all loops of this folder. V8 inlines it. */
export function intAt(integers: Int32Array, index: number): number {
  return integers[index]!
}
