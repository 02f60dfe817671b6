import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

/** Reads the annotations of a delta or message: their fields are in a field that is named after the type. */
export function readAnnotations(value: unknown): JsonObject[] {
  if (!Array.isArray(value)) return []
  return value.flatMap(item => {
    if (!isJsonObject(item) || typeof item.type !== 'string') return []
    const { type } = item
    const fields = Object.hasOwn(item, type) ? item[type] : undefined
    return [isJsonObject(fields) ? { ...fields, type } : item]
  })
}

/** Returns an annotation as chat has it. */
export function chatAnnotation({ type, ...fields }: JsonObject): JsonObject {
  return { type, [String(type)]: fields }
}
