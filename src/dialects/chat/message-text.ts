import { isJsonObject } from '../../runtime/json-object.ts'

/** The text of message content: a string, or the text parts of an array (Mistral answers so). Null when there is none. */
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

/** What was thought before, where content is an array that has it beside the text: Mistral answers so (LiteLLM issue 16272). Null when there is none. */
export function thinkingText(content: unknown): string | null {
  if (!Array.isArray(content)) return null
  const texts = content.map(part =>
    isJsonObject(part) && part.type === 'thinking' ? messageText(part.thinking) : null,
  )
  return texts.some(text => text !== null) ? texts.join('') : null
}
