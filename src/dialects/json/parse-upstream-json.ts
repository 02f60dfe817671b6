import { UpstreamFailure } from '../../domain/upstream-failure.ts'
import { DEPTH_MAX, measureJson } from './measure-json.ts'

/** Brackets, colons and commas outside of strings. 16 MiB of log probabilities have some 3 million. */
const SIGNS_MAX = 4_194_304
/** Shorter texts cannot be nested so deep that something breaks, and need not be looked at: they are nearly all. */
const UNCHECKED_UNITS = 4_096

/**
 * JSON of an upstream. Of 16 MiB of brackets V8 makes 500 MB of objects in three seconds, and needs forty more to write them: nobody else is
 * served meanwhile. Throws UpstreamFailure `malformed` for that, and SyntaxError for what is no JSON.
 */
export function parseUpstreamJson(text: string): unknown {
  if (text.length > UNCHECKED_UNITS) refuseOversizedJson(text)
  // A byte order mark, which may be overlooked (RFC 8259, 8.1), as fetch does.
  return JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text)
}

function refuseOversizedJson(text: string): void {
  const { depth, signs } = measureJson(Buffer.from(text))
  if (depth > DEPTH_MAX) throw new UpstreamFailure('malformed', `The answer is nested deeper than ${DEPTH_MAX} levels.`)
  if (signs > SIGNS_MAX)
    throw new UpstreamFailure('malformed', `The answer has more than ${SIGNS_MAX} brackets, colons and commas.`)
}
