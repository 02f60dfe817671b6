import type { AnswerBounds } from '../../base/domain/answer-bounds.ts'

const MIB = 1_048_576
/** Parsing so many numbers takes about a quarter of a second: long answers are parsed in pieces. */
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
