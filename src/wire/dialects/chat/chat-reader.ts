import type { ChatChunk, ChatCompletion } from '../../../base/domain/completion.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import type { AnswerReader, StreamNormaliser } from '../upstream-task.ts'
import { ChunkNormaliser } from './upstream-chunk.ts'
import { completionAsChunks, normaliseCompletion } from './upstream-completion.ts'

/** Reads the answers of servers that speak chat. */
export const chatReader: AnswerReader = {
  stream: (envelope, { choices, bounds, hidesReasoning }) =>
    new ChunkNormaliser(envelope, choices, bounds.delimiters, hidesReasoning),
  whole: normaliseCompletion,
}

/**
 * Turns a whole completion into the parts of a stream: some servers answer `stream: true` with one.
 *
 * @param normaliser a new one of the chat dialect
 */
export function completionAsStream(completion: ChatCompletion, normaliser: StreamNormaliser): StreamPart[] {
  const chunks: ChatChunk[] = completionAsChunks(completion)
  return [...chunks.map(chunk => JSON.stringify(chunk)), '[DONE]'].flatMap(data => normaliser.push({ event: '', data }))
}
