import type { ChatChunk } from '../../../base/domain/completion.ts'

/** True if the chunk carries part of the answer: text, reasoning, a tool call, a refusal or audio. */
export function hasContent(chunk: ChatChunk | string): boolean {
  if (typeof chunk === 'string') return true
  for (const { delta } of chunk.choices) {
    for (const key in delta) {
      if (key !== 'role' && delta[key] !== '') return true
    }
  }
  return false
}

/** Returns the text of a chunk that carries only content of the first choice, or null. */
export function onlyText({ choices }: ChatChunk): string | null {
  const { index, delta, finish_reason, logprobs } = choices[0]!
  if (choices.length > 1 || index !== 0 || finish_reason !== null || logprobs !== undefined) return null
  const { content, ...rest } = delta
  return typeof content === 'string' && Object.keys(rest).length === 0 ? content : null
}
