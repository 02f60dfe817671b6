import type { ChatChunk } from '../../../base/domain/completion.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'

/**
 * Returns the text of message content: a string, or the joined text parts of an array, which Mistral sends.
 * Null if there is none.
 */
export function messageText(content: unknown): string | null {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return null
  const texts: string[] = []
  for (const part of content) {
    if (typeof part === 'string') texts.push(part)
    else if (isJsonObject(part) && typeof part.text === 'string') texts.push(part.text)
  }
  return texts.length > 0 ? texts.join('') : null
}

/**
 * Returns the joined thinking parts of an array content, which Mistral sends (LiteLLM issue 16272). Null if
 * there are none.
 */
export function thinkingText(content: unknown): string | null {
  if (!Array.isArray(content)) return null
  const texts = content.map(part =>
    isJsonObject(part) && part.type === 'thinking' ? messageText(part.thinking) : null,
  )
  return texts.some(text => text !== null) ? texts.join('') : null
}

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

/** True if the chunk carries more of the answer than reasoning. */
export function hasText(chunk: ChatChunk | string): boolean {
  if (typeof chunk === 'string') return true
  for (const { delta, finish_reason: reason } of chunk.choices) {
    if (reason !== null) return true
    for (const key in delta) {
      if (key !== 'role' && !key.startsWith('reasoning') && delta[key] !== '') return true
    }
  }
  return false
}

/** Returns the text of a chunk that carries only content of the first choice, or null. */
export function onlyText({ choices }: ChatChunk): string | null {
  const { index, delta, finish_reason, logprobs } = elementAt(choices, 0)
  if (choices.length > 1 || index !== 0 || finish_reason !== null || logprobs !== undefined) return null
  const { content, ...rest } = delta
  return typeof content === 'string' && Object.keys(rest).length === 0 ? content : null
}
