import { isJsonObject } from '../domain/json-object.ts'

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
