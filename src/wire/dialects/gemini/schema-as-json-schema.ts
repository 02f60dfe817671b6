import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { withoutNullable } from '../nullable-schema.ts'

/**
 * Turns a schema of Google's OpenAPI subset into JSON Schema: types in lower case, `nullable` as a type. Other keys
 * mean the same. JSON Schema stays as it is.
 */
export function schemaAsJsonSchema(schema: JsonObject): JsonObject {
  const { type } = schema
  const result = withoutNullable(typeof type === 'string' ? { ...schema, type: type.toLowerCase() } : schema)
  if (isJsonObject(result.items)) result.items = schemaAsJsonSchema(result.items)
  if (isJsonObject(result.properties)) {
    result.properties = Object.fromEntries(
      Object.entries(result.properties).map(([name, value]) => [
        name,
        isJsonObject(value) ? schemaAsJsonSchema(value) : value,
      ]),
    )
  }
  if (Array.isArray(result.anyOf)) {
    result.anyOf = result.anyOf.map(each => (isJsonObject(each) ? schemaAsJsonSchema(each) : each))
  }
  return result
}
