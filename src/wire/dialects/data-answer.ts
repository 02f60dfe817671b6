import type { TokenUsage } from '../../base/domain/completion.ts'
import type { AnswerBounds } from '../../base/domain/request-bounds.ts'
import { isJsonObject, type JsonObject } from '../../base/runtime/json-object.ts'
import { classifyError } from './chat/classify-error.ts'
import { readUpstreamError } from './chat/upstream-error.ts'
import { readUsage } from './chat/usage.ts'
import { parseUpstreamObject } from './json/parse-json.ts'

/** Parses an answer with status 200. Throws UpstreamFailure: `malformed`, or the outcome of an error in the body. */
export function readDataObject(text: string, { delimiters }: AnswerBounds): JsonObject {
  const answer = parseUpstreamObject(text, delimiters)
  const error = readUpstreamError(answer)
  if (error) throw classifyError(null, error)
  return answer
}

const MIB = 1_048_576
/** Parsing so many numbers at once takes about a quarter of a second. Embeddings parse long answers in pieces. */
const WHOLE_BYTES_MAX = 32 * MIB
const BASE_BYTES = 262_144
const BASE_DELIMITERS = 32_768

/** Returns the bounds for an answer with at most so many bytes and values. */
export function dataBounds(bytes: number, values: number): AnswerBounds {
  const delimiters = BASE_DELIMITERS + values
  return {
    wholeBytes: Math.min(WHOLE_BYTES_MAX, BASE_BYTES + bytes),
    delimiters,
    // Such answers are never streamed.
    eventBytes: 0,
    streamDelimiters: 0,
    otherBytes: 0,
  }
}

/**
 * Reads the usage report of an answer without generated tokens. Null if there is none, or if all its counts are 0.
 * Some servers report only the total.
 */
export function readInputUsage(usage: unknown): TokenUsage | null {
  if (!isJsonObject(usage)) return null
  return readUsage({ prompt_tokens: usage.prompt_tokens || usage.total_tokens }, false)
}
