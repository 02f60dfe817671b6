import { UpstreamFailure } from '../domain/upstream-failure.ts'

const DEPTH_MAX = 64
/** Brackets, colons and commas outside of strings. 16 MiB of log probabilities have some 3 million. */
const SIGNS_MAX = 4_194_304
/** Shorter texts cannot be nested so deep that something breaks, and need not be looked at: they are nearly all. */
const UNCHECKED_UNITS = 4_096

const BACKSLASH = 92
const QUOTE = 34
const COMMA = 44
const COLON = 58
const OPEN_BRACE = 0x7b
const CLOSE_BRACE = 0x7d
const OPEN_BRACKET = 0x5b
const CLOSE_BRACKET = 0x5d

/**
 * JSON of an upstream. Of 16 MiB of brackets V8 makes 500 MB of objects in three seconds, and needs forty more to write them: nobody else is
 * served meanwhile. Throws UpstreamFailure `malformed` for that, and SyntaxError for what is no JSON.
 */
export function parseUpstreamJson(text: string): unknown {
  if (text.length > UNCHECKED_UNITS) refuseSprawl(text)
  return JSON.parse(text)
}

function refuseSprawl(text: string): void {
  let depth = 0
  let signs = 0
  for (let i = 0; i < text.length; i++) {
    switch (text.charCodeAt(i)) {
      case QUOTE:
        for (i++; i < text.length && text.charCodeAt(i) !== QUOTE; i++) if (text.charCodeAt(i) === BACKSLASH) i++
        break
      case OPEN_BRACE:
      case OPEN_BRACKET:
        signs++
        if (++depth > DEPTH_MAX)
          throw new UpstreamFailure('malformed', `The answer is nested deeper than ${DEPTH_MAX} levels.`)
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
  if (signs > SIGNS_MAX)
    throw new UpstreamFailure('malformed', `The answer has more than ${SIGNS_MAX} brackets, colons and commas.`)
}
