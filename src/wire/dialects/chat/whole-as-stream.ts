import type { ChatChunk, ChatCompletion } from '../../../base/domain/completion.ts'
import type { StreamPart } from '../../../base/domain/handoff.ts'
import type { StreamNormaliser } from '../upstream-dialect.ts'
import { completionAsChunks } from './upstream-completion.ts'

/**
 * Turns a whole completion into the parts of a stream: some servers answer `stream: true` with one.
 *
 * @param normaliser a new one of the chat dialect
 */
export function completionAsStream(completion: ChatCompletion, normaliser: StreamNormaliser): StreamPart[] {
  const chunks: ChatChunk[] = completionAsChunks(completion)
  return [...chunks.map(chunk => JSON.stringify(chunk)), '[DONE]'].flatMap(data => normaliser.push({ event: '', data }))
}
