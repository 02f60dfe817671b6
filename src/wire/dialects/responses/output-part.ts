import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

/** Returns a part of a message. */
export function outputPart(
  type: 'output_text' | 'refusal',
  text: string,
  annotations: readonly JsonObject[],
): JsonObject {
  return type === 'refusal' ? { type, refusal: text } : { type, text, annotations, logprobs: [] }
}

/** Returns the characters of the text in these parts of messages, as OpenAI counts the positions of annotations. */
export function textLength(parts: readonly JsonObject[]): number {
  let length = 0
  for (const { type, text } of parts) if (type === 'output_text' && typeof text === 'string') length += characters(text)
  return length
}

/** Returns the parts of the messages among these items. */
export function messageParts(items: readonly JsonObject[]): JsonObject[] {
  return items.flatMap(({ type, content }) =>
    type === 'message' && Array.isArray(content) ? content.filter(isJsonObject) : [],
  )
}

/** Returns an annotation with its positions moved by so many characters. */
export function movedAnnotation(annotation: JsonObject, by: number): JsonObject {
  if (by === 0) return annotation
  const { start_index: start, end_index: end } = annotation
  return {
    ...annotation,
    ...(typeof start === 'number' && { start_index: start + by }),
    ...(typeof end === 'number' && { end_index: end + by }),
  }
}

/** Code points: a character beyond 16 bits counts once. */
function characters(text: string): number {
  let count = text.length
  for (let at = 0; at < text.length; at++) if ((text.charCodeAt(at) & 0xfc00) === 0xd800) count--
  return count
}
