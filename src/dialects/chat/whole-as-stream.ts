import type { ChatChunk } from '../../domain/completion.ts'
import type { ExpectedAnswer } from './empty-answer.ts'
import type { ChunkNormaliser } from './upstream-chunk.ts'
import { completionAsChunks, normaliseCompletion } from './upstream-completion.ts'

/**
 * Turns a whole completion into the chunks of a stream: some servers answer `stream: true` with one, or with
 * an error object and status 200. Throws UpstreamFailure.
 */
export function wholeAsStream(text: string, normaliser: ChunkNormaliser, expected: ExpectedAnswer): ChatChunk[] {
  const completion = normaliseCompletion(text, { id: '', created: 0, model: '' }, expected)
  return [...completionAsChunks(completion).map(chunk => JSON.stringify(chunk)), '[DONE]'].flatMap(data =>
    normaliser.push({ event: '', data }),
  )
}
