import type { AnswerReader } from '../upstream-dialect.ts'
import { ChunkNormaliser } from './upstream-chunk.ts'
import { normaliseCompletion } from './upstream-completion.ts'

/** Reads the answers of servers that speak chat. */
export const chatReader: AnswerReader = {
  stream: (envelope, { choices, bounds, hidesReasoning }) =>
    new ChunkNormaliser(envelope, choices, bounds.delimiters, hidesReasoning),
  whole: normaliseCompletion,
}
