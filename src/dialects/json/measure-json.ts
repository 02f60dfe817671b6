/** JSON.parse accepts millions of levels, but code that recurses over the result would overflow the stack. */
export const DEPTH_MAX = 64

const BACKSLASH = 92
const QUOTE = 34
const COMMA = 44
const COLON = 58
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/**
 * Measures JSON in UTF-8 without parsing it: its depth, and `delimiters`, the number of opening brackets,
 * colons and commas outside strings. One pass over the bytes; 4 MiB take a few milliseconds.
 */
export function measureJson(json: Buffer): { readonly depth: number; readonly delimiters: number } {
  let depth = 0
  let deepest = 0
  let delimiters = 0
  for (let i = 0; i < json.length; i++) {
    switch (json[i]) {
      case QUOTE:
        i = endOfString(json, i + 1)
        break
      case OPEN_BRACE:
      case OPEN_BRACKET:
        depth++
        delimiters++
        if (depth > deepest) deepest = depth
        break
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--
        break
      case COMMA:
      case COLON:
        delimiters++
    }
  }
  return { depth: deepest, delimiters }
}

/**
 * Returns the index of the closing quote, or of the end. A separate loop halves the time, since most bytes
 * are in strings.
 */
function endOfString(json: Buffer, from: number): number {
  let i = from
  while (i < json.length && json[i] !== QUOTE) i += json[i] === BACKSLASH ? 2 : 1
  return i
}
