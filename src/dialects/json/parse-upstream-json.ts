import { UpstreamFailure } from '../../domain/upstream-failure.ts'
import { DEPTH_MAX, measureJson } from './measure-json.ts'

/** Most opening brackets, colons and commas outside strings. 16 MiB of log probabilities have about 3 million. */
const DELIMITERS_MAX = 4_194_304
/** Shorter texts, in UTF-16 units, are safe without a check. Nearly all texts are. */
const UNCHECKED_UNITS_MAX = 4_096

/**
 * Parses JSON of an upstream. Throws UpstreamFailure `malformed` if it is too deep or too large, and
 * SyntaxError if it is not JSON. V8 turns 16 MiB of brackets into 500 MB of objects in three seconds and
 * takes another forty to serialize them, which blocks every other request.
 */
export function parseUpstreamJson(text: string): unknown {
  if (text.length > UNCHECKED_UNITS_MAX) refuseOversizedJson(text)
  // Skip a byte order mark, as RFC 8259, 8.1 allows and fetch does.
  return JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text)
}

function refuseOversizedJson(text: string): void {
  const { depth, delimiters } = measureJson(Buffer.from(text))
  if (depth > DEPTH_MAX) throw new UpstreamFailure('malformed', `The answer is nested deeper than ${DEPTH_MAX} levels.`)
  if (delimiters > DELIMITERS_MAX)
    throw new UpstreamFailure(
      'malformed',
      `The answer has more than ${DELIMITERS_MAX} opening brackets, colons and commas.`,
    )
}
