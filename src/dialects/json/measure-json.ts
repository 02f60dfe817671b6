/** JSON.parse accepts millions of levels, and what recurses over the result would not. */
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
 * Of JSON in UTF-8, before anything is built: how deep it is nested, and how many opening brackets, colons and commas it has outside of strings.
 * One pass over the bytes, 4 MiB in a few milliseconds.
 */
export function measureJson(json: Buffer): { readonly depth: number; readonly signs: number } {
  let depth = 0
  let deepest = 0
  let signs = 0
  for (let i = 0; i < json.length; i++) {
    switch (json[i]) {
      case QUOTE:
        i = endOfString(json, i + 1)
        break
      case OPEN_BRACE:
      case OPEN_BRACKET:
        depth++
        signs++
        if (depth > deepest) deepest = depth
        break
      case CLOSE_BRACE:
      case CLOSE_BRACKET:
        depth--
        break
      case COMMA:
      case COLON:
        signs++
    }
  }
  return { depth: deepest, signs }
}

/** Where the closing quote of a string is, or the end. A loop of its own takes less than half the time, since most bytes are in strings. */
function endOfString(json: Buffer, from: number): number {
  let i = from
  while (i < json.length && json[i] !== QUOTE) i += json[i] === BACKSLASH ? 2 : 1
  return i
}
