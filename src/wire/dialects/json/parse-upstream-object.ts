import { UpstreamFailure } from '../../../base/domain/upstream-failure.ts'
import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { parseUpstreamJson, tallyFor } from './parse-json.ts'

/**
 * Parses a whole answer, which must be a JSON object. Throws UpstreamFailure `malformed`.
 *
 * @param delimitersMax the most delimiters in the JSON; see AnswerBounds
 */
export function parseUpstreamObject(text: string, delimitersMax?: number): JsonObject {
  try {
    const body: unknown = parseUpstreamJson(text, tallyFor(delimitersMax))
    if (isJsonObject(body)) return body
  } catch (error) {
    if (error instanceof UpstreamFailure) throw error
    // Do not pass the error on: V8 quotes the text in it.
    throw new UpstreamFailure('malformed', 'The answer is not valid JSON.')
  }
  throw new UpstreamFailure('malformed', 'The answer is not a JSON object.')
}
