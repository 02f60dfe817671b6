/** A parsed JSON object with unchecked contents. */
export type JsonObject = Record<string, unknown>

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a key has a meaning in JavaScript. JSON may contain such keys, but copies must not. */
export function isPrototypeKey(key: string): boolean {
  return key === '__proto__' || key === 'constructor' || key === 'prototype'
}

/** Returns a parsed JSON value as text. `String` throws for an object with a field `toString`. */
export function jsonText(value: unknown): string {
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
