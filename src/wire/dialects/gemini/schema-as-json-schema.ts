import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

/**
 * Turns a schema of Google's OpenAPI subset into JSON Schema: types in lower case, `nullable` as a type. Other keys
 * mean the same. JSON Schema stays as it is.
 */
export function schemaAsJsonSchema(schema: JsonObject): JsonObject {
  const { nullable, ...rest } = schema
  const result: JsonObject = rest
  if (typeof schema.type === 'string') {
    const type = schema.type.toLowerCase()
    result.type = nullable === true ? [type, 'null'] : type
  }
  if (isJsonObject(schema.items)) result.items = schemaAsJsonSchema(schema.items)
  if (isJsonObject(schema.properties)) {
    result.properties = Object.fromEntries(
      Object.entries(schema.properties).map(([name, value]) => [
        name,
        isJsonObject(value) ? schemaAsJsonSchema(value) : value,
      ]),
    )
  }
  if (Array.isArray(schema.anyOf)) {
    result.anyOf = schema.anyOf.map(each => (isJsonObject(each) ? schemaAsJsonSchema(each) : each))
  }
  return result
}
