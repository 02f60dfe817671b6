import { countTokens } from '../../wire/tokens/count-tokens.ts'
import { estimateTokens } from '../../wire/tokens/estimate-tokens.ts'

/** Up to this limit of tokens, a text is counted early: a slack of eight characters a token would hide too much. */
const SMALL_LIMIT_TOKENS = 64
/** A text that is cut is counted exactly up to this length: 1 ms for prose, 20 ms for the slowest text found. */
const EXACT_UNITS_MAX = 16_384
const SLICE_UNITS = 512

/**
 * Returns the count above which an answer clearly exceeds `tokensMax`. The slack is for upstreams with a tokenizer
 * that makes fewer tokens than the gateway's. The bill stays within the limit in any case.
 */
export function tokensWithSlack(tokensMax: number): number {
  return tokensMax * 1.25 + 8
}

/** Returns the size, as `textSize` measures it, up to which a text is not counted. Most tokens have four bytes. */
export function uncountedSize(tokensMax: number): number {
  return tokensMax <= SMALL_LIMIT_TOKENS ? tokensMax * 4 + 8 : tokensMax * 8
}

/** In bytes for a small limit, because other scripts have several tokens a character; otherwise in UTF-16 units. */
export function textSize(text: string, tokensMax: number): number {
  return tokensMax <= SMALL_LIMIT_TOKENS ? Buffer.byteLength(text) : text.length
}

/**
 * Returns where a text must be cut because it clearly exceeds `tokensMax`, in UTF-16 units, or null. The cut of a
 * long text is estimated and leaves at most about `tokensMax`.
 */
export function limitPosition(text: string, tokensMax: number): number | null {
  const allowed = tokensWithSlack(tokensMax)
  if (text.length > EXACT_UNITS_MAX) {
    const tokens = estimateTokens(text)
    return tokens > allowed ? withoutHalfPair(text, Math.floor((text.length * tokensMax) / tokens)) : null
  }
  let counted = 0
  for (let start = 0; start < text.length; start += SLICE_UNITS) {
    const slice = text.slice(start, start + SLICE_UNITS)
    const tokens = countTokens(slice)
    if (counted + tokens > allowed) return start + lengthWithin(slice, allowed - counted)
    counted += tokens
  }
  return null
}

/** Returns the length of the longest beginning with at most `tokensMax` tokens. The text must be short. */
export function lengthWithin(text: string, tokensMax: number): number {
  let fits = 0
  let exceeds = text.length + 1
  while (exceeds - fits > 1) {
    const middle = (fits + exceeds) >> 1
    if (countTokens(text.slice(0, middle)) <= tokensMax) fits = middle
    else exceeds = middle
  }
  return withoutHalfPair(text, fits)
}

/** Moves a cut that would split a surrogate pair. */
function withoutHalfPair(text: string, length: number): number {
  const isSplit = length < text.length && (text.charCodeAt(length) & 0xfc00) === 0xdc00
  return isSplit ? length - 1 : length
}
