import type { TextLength } from '../../base/domain/text-length.ts'
import { sliceText, tokenizer } from './tokenizer.ts'

/** Measures a text slice by slice, so that a thread can measure several texts in turns. */
export class TextMeasure {
  readonly #slices: Generator<string, void, undefined>
  #text = ''
  #tokens = 0
  /** Quarters of a token, so that the sum is exact. */
  #boundQuarters = 0

  constructor(text: string) {
    this.#slices = sliceText(text)
  }

  /** Measures up to `slicesMax` more slices. Returns the length when the text is complete. */
  advance(slicesMax: number): TextLength | null {
    const bpe = tokenizer()
    for (let done = 0; done < slicesMax; done++) {
      const { value } = this.#slices.next()
      if (value === undefined) return { tokens: this.#tokens, tokensBound: Math.ceil(this.#boundQuarters / 4) }
      this.#text = value
      bpe.count(value, this.#add)
    }
    return null
  }

  readonly #add = (start: number, end: number, bytes: number, tokens: number): void => {
    this.#tokens += tokens
    this.#boundQuarters += boundQuarters(this.#text, start, end, bytes, tokens)
  }
}

/** Measures a text at once. */
export function measureText(text: string): TextLength {
  return new TextMeasure(text).advance(Number.POSITIVE_INFINITY)!
}

/**
 * How vocabularies differ from o200k_base, by character. `PLAIN`: ASCII words, blanks and punctuation; they need up to
 * 25% more tokens. `COMMON`: scripts of which every vocabulary has many words; up to 50% more. `SINGLE`: digits, line
 * breaks and tabs; one token each for some, where o200k_base joins them. `RARE`: all other scripts; one token a byte.
 */
const PLAIN = 0
const COMMON = 1
const SINGLE = 2
const RARE = 3

/** Returns the bound of one piece, in quarters of a token. */
function boundQuarters(text: string, start: number, end: number, bytes: number, tokens: number): number {
  let singles = 0
  let hasCommon = false
  for (let at = start; at < end; at++) {
    const script = scripts[text.charCodeAt(at)]!
    if (script === RARE) return bytes * 4
    if (script === SINGLE) singles++
    else if (script === COMMON) hasCommon = true
  }
  // o200k_base has tokens for runs of up to 128 blanks or dashes; others join at least eight.
  const joined = hasCommon ? tokens * 6 : Math.max(tokens * 5, bytes >> 1)
  return Math.min(joined + singles * 4, bytes * 4)
}

const scripts = new Uint8Array(0x10000).fill(RARE)
for (const [first, last, script] of [
  [0x00, 0x1f, SINGLE],
  [0x20, 0x7f, PLAIN],
  [0x30, 0x39, SINGLE],
  [0xa0, 0x24f, COMMON], // Latin
  [0x400, 0x4ff, COMMON], // Cyrillic
  [0x600, 0x6ff, COMMON], // Arabic
  [0xe00, 0xe7f, COMMON], // Thai
  [0x1e00, 0x1eff, COMMON], // Vietnamese
  [0x2010, 0x2026, COMMON], // dashes and quotes
  [0x3000, 0x30ff, COMMON], // Japanese syllables, CJK punctuation
  [0x4e00, 0x9fff, COMMON], // Chinese characters
  [0xac00, 0xd7a3, COMMON], // Korean
  [0xff00, 0xffef, COMMON], // full width forms
] as const) {
  scripts.fill(script, first, last + 1)
}
