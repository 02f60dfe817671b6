import type { AnswerBounds } from '../../base/domain/answer-bounds.ts'
import type { JsonObject } from '../../base/runtime/json-object.ts'
import { classifyError } from './chat/classify-error.ts'
import { readUpstreamError } from './chat/upstream-error.ts'
import { parseUpstreamObject } from './json/parse-upstream-object.ts'

/** Parses an answer with status 200. Throws UpstreamFailure: `malformed`, or the outcome of an error in the body. */
export function readDataObject(text: string, { delimiters }: AnswerBounds): JsonObject {
  const answer = parseUpstreamObject(text, delimiters)
  const error = readUpstreamError(answer)
  if (error) throw classifyError(null, error)
  return answer
}
