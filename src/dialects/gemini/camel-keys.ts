import type { JsonObject } from '../../runtime/json-object.ts'

/** Returns the object with its own keys in camel case: Google accepts `system_instruction` for `systemInstruction`. */
export function camelKeys(object: JsonObject): JsonObject {
  for (const key in object) {
    if (!key.includes('_')) continue
    return Object.fromEntries(
      Object.entries(object).map(([name, value]) => [
        name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()),
        value,
      ]),
    )
  }
  return object
}
