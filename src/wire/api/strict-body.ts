import type { z } from 'zod'
import { bodyRefusal } from '../dialects/json/body-refusal.ts'
import { parseJsonObject } from '../dialects/json/parse-json.ts'

/**
 * Parses the body of a request that changes something, for a schema that allows no unknown fields. Throws ApiError
 * `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault.
 *
 * @param what for the message about unknown fields, such as "a sign-in"
 */
export function parseStrictBody<T extends z.ZodObject>(body: Buffer, schema: T, what: string): z.output<T> {
  const input = parseJsonObject(body, undefined, disarmProto)
  const result = schema.safeParse(input)
  if (!result.success) throw bodyRefusal(result.error, input, { what, schema })
  return result.data
}

/**
 * Replaces the value of an own member `__proto__` by true. The schema then refuses the name as any unknown field, and
 * copying it cannot change a prototype.
 */
function disarmProto(object: object): void {
  Reflect.defineProperty(object, '__proto__', { value: true })
}
