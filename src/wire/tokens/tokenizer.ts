import { O200K_TOKEN_SPLIT_REGEX } from 'gpt-tokenizer/encodingParams/constants'
import { intAt, NO_RANK, readVocabulary, type Vocabulary } from './vocabulary.ts'

/** The longest text that the tokenizer takes at once, in UTF-16 units. `sliceText` cuts longer text. */
export const SLICE_UNITS = 512

/** A position in the heap of `#merge` has this many bits, enough for the UTF-8 of a slice. */
const POSITION_BITS = 11
const SLICE_BYTES_MAX = SLICE_UNITS * 3

/** Called for each piece of a slice: a word, a number or a run of punctuation or blanks. No token spans two pieces. */
export type OnPiece = (start: number, end: number, bytes: number, tokens: number) => void

/**
 * Byte-pair encoding of slices of text in o200k_base. Special tokens such as `<|endoftext|>` are text like any
 * other. Equals gpt-tokenizer in its results; `vocabulary.ts` explains why this is not gpt-tokenizer.
 */
export class Tokenizer {
  readonly #vocabulary: Vocabulary
  readonly #split = new RegExp(O200K_TOKEN_SPLIT_REGEX.source, 'gu')
  readonly #encoder = new TextEncoder()
  readonly #bytes = new Uint8Array(SLICE_BYTES_MAX)
  /** The parts of a piece form a list, in which a part is named by its first byte. */
  readonly #next = new Int32Array(SLICE_BYTES_MAX + 1)
  readonly #previous = new Int32Array(SLICE_BYTES_MAX + 1)
  /** The rank of each part joined with the next one. */
  readonly #joined = new Int32Array(SLICE_BYTES_MAX + 1)
  readonly #heap = new MinHeap(SLICE_BYTES_MAX * 3)

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary
  }

  /**
   * Draws words of any language: tokens that begin with a space and have at least four letters.
   *
   * @param random uniform in [0, 1)
   */
  drawWords(count: number, random: () => number): string[] {
    const words: string[] = []
    while (words.length < count) {
      const text = this.#vocabulary.textOf(Math.floor(random() * this.#vocabulary.size))
      if (/^ \p{L}{4,}$/u.test(text)) words.push(text.trim())
    }
    return words
  }

  /** Counts the tokens of a text of at most SLICE_UNITS, piece by piece. Positions are UTF-16 units of `slice`. */
  count(slice: string, onPiece: OnPiece): void {
    this.#eachPiece(slice, (start, end, byteStart, byteEnd) => {
      const isToken = this.#vocabulary.rankOf(this.#bytes, byteStart, byteEnd) !== NO_RANK
      onPiece(start, end, byteEnd - byteStart, isToken ? 1 : this.#merge(byteStart, byteEnd))
    })
  }

  /** Returns the tokens of a text of at most SLICE_UNITS, each with its bytes. */
  encode(slice: string): { readonly rank: number; readonly bytes: Uint8Array }[] {
    const tokens: { rank: number; bytes: Uint8Array }[] = []
    this.#eachPiece(slice, (_start, _end, byteStart, byteEnd) => {
      this.#merge(byteStart, byteEnd)
      for (let part = 0; part < byteEnd - byteStart; part = intAt(this.#next, part)) {
        const from = byteStart + part
        const to = byteStart + intAt(this.#next, part)
        tokens.push({ rank: this.#vocabulary.rankOf(this.#bytes, from, to), bytes: this.#bytes.slice(from, to) })
      }
    })
    return tokens
  }

  #eachPiece(slice: string, visit: (start: number, end: number, byteStart: number, byteEnd: number) => void): void {
    if (slice.length > SLICE_UNITS) throw new RangeError(`A slice has at most ${SLICE_UNITS} UTF-16 units.`)
    this.#encoder.encodeInto(slice, this.#bytes)
    const split = this.#split
    split.lastIndex = 0
    for (let start = 0, byteStart = 0; split.test(slice); ) {
      const end = split.lastIndex
      const byteEnd = byteStart + utf8Bytes(slice, start, end)
      visit(start, end, byteStart, byteEnd)
      start = end
      byteStart = byteEnd
    }
  }

  /**
   * Joins neighbouring parts of the piece as long as two of them form a token, lowest rank first. Returns the number
   * of parts that remain. The heap keeps this at n log n: a search for the lowest rank at each step is quadratic.
   */
  #merge(start: number, end: number): number {
    const bytes = this.#bytes
    const vocabulary = this.#vocabulary
    const next = this.#next
    const previous = this.#previous
    const joined = this.#joined
    const heap = this.#heap
    const length = end - start
    const rankJoined = (part: number) => {
      const rank =
        intAt(next, part) < length
          ? vocabulary.rankOf(bytes, start + part, start + intAt(next, intAt(next, part)))
          : NO_RANK
      joined[part] = rank
      if (rank !== NO_RANK) heap.push((rank << POSITION_BITS) | part)
    }
    heap.clear()
    for (let part = 0; part <= length; part++) {
      next[part] = part + 1
      previous[part] = part - 1
    }
    for (let part = 0; part < length; part++) rankJoined(part)
    let parts = length
    while (heap.size > 0) {
      const lowest = heap.pop()
      const part = lowest & ((1 << POSITION_BITS) - 1)
      // A part that was joined since has another rank.
      if (joined[part] !== lowest >>> POSITION_BITS) continue
      const absorbed = intAt(next, part)
      joined[absorbed] = NO_RANK
      next[part] = intAt(next, absorbed)
      previous[intAt(next, part)] = part
      parts--
      rankJoined(part)
      if (part > 0) rankJoined(intAt(previous, part))
    }
    return parts
  }
}

/** A heap of integers, smallest first. */
class MinHeap {
  readonly #items: Int32Array
  #size = 0

  constructor(capacity: number) {
    this.#items = new Int32Array(capacity)
  }

  get size(): number {
    return this.#size
  }

  clear(): void {
    this.#size = 0
  }

  push(item: number): void {
    const items = this.#items
    let at = this.#size++
    while (at > 0) {
      const parent = (at - 1) >> 1
      if (intAt(items, parent) <= item) break
      items[at] = intAt(items, parent)
      at = parent
    }
    items[at] = item
  }

  pop(): number {
    const items = this.#items
    const first = intAt(items, 0)
    const last = intAt(items, --this.#size)
    let at = 0
    for (let child = 1; child < this.#size; child = 2 * at + 1) {
      if (child + 1 < this.#size && intAt(items, child + 1) < intAt(items, child)) child++
      if (intAt(items, child) >= last) break
      items[at] = intAt(items, child)
      at = child
    }
    items[at] = last
    return first
  }
}

/** The UTF-8 length of a part of a text. A lone surrogate becomes U+FFFD, three bytes. */
function utf8Bytes(text: string, start: number, end: number): number {
  let bytes = 0
  for (let at = start; at < end; at++) {
    const unit = text.charCodeAt(at)
    if (unit < 0x80) bytes += 1
    else if (unit < 0x800) bytes += 2
    else if (isPair(text, at)) {
      bytes += 4
      at++
    } else bytes += 3
  }
  return bytes
}

function isPair(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xd800 && (text.charCodeAt(at + 1) & 0xfc00) === 0xdc00
}

/**
 * Splits a text into slices of at most SLICE_UNITS: before a space if possible, never inside a surrogate pair. No
 * token spans a single space between two words, so such a cut does not change the count.
 */
export function* sliceText(text: string): Generator<string, void, undefined> {
  let start = 0
  while (text.length - start > SLICE_UNITS) {
    const end = sliceEnd(text, start)
    yield text.slice(start, end)
    start = end
  }
  if (start < text.length) yield text.slice(start)
}

function sliceEnd(text: string, start: number): number {
  const limit = start + SLICE_UNITS
  for (let at = limit; at > start; at--) {
    if (text[at] === ' ' && isVisible(text.charCodeAt(at - 1)) && isVisible(text.charCodeAt(at + 1))) return at
  }
  return isPair(text, limit - 1) ? limit - 1 : limit
}

/** False for white space and after the end: only a single space between two words is always a token boundary. */
function isVisible(unit: number): boolean {
  return unit > 0x20 && unit !== 0x7f && unit !== 0xa0
}

let loaded: Tokenizer | undefined

/** Returns the tokenizer of this thread. The first call reads the vocabulary, which takes 100 to 200 ms. */
export function tokenizer(): Tokenizer {
  loaded ??= new Tokenizer(readVocabulary())
  return loaded
}
