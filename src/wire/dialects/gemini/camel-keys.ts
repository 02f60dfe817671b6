import type { JsonObject } from '../../../base/runtime/json-object.ts'

/**
 * Returns the object with its own keys in camel case: Google accepts `system_instruction` for `systemInstruction`. A
 * key that begins with an underscore, such as `__proto__`, is no name of Google's and stays as it was sent.
 */
export function camelKeys(object: JsonObject): JsonObject {
  for (const key in object) {
    if (!key.includes('_')) continue
    return Object.fromEntries(
      Object.entries(object).map(([name, value]) => [
        name.replace(/(?<=[^_])_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
        value,
      ]),
    )
  }
  return object
}
