import { isJsonObject, type JsonObject } from '../../base/runtime/json-object.ts'

const choices = ['anyOf', 'oneOf'] as const
/** Keywords that say which values there are, so that null must be a choice beside them. */
const constraints = ['$ref', 'allOf', 'not', 'if'] as const

/**
 * Returns one level of a schema without `nullable`, which OpenAPI 3.0 and Google have and JSON Schema has not: null becomes
 * a type, a value or a choice.
 */
export function withoutNullable({ nullable, ...schema }: JsonObject): JsonObject {
  if (nullable !== true) return schema
  const { $defs, definitions, title, description, default: value, ...rest } = schema
  if (constraints.some(keyword => rest[keyword] !== undefined)) {
    const around = { $defs, definitions, title, description, default: value }
    return { ...defined(around), anyOf: [rest, { type: 'null' }] }
  }
  const { type, enum: values, const: only } = schema
  if (type !== undefined) schema.type = [...new Set([type, 'null'].flat())]
  if (Array.isArray(values)) schema.enum = values.includes(null) ? values : [...values, null]
  if (only !== undefined && only !== null) {
    delete schema.const
    schema.enum = [only, null]
  }
  for (const keyword of choices) {
    const list = schema[keyword]
    if (Array.isArray(list) && !list.some(isNull)) schema[keyword] = [...list, { type: 'null' }]
  }
  return schema
}

/** Whether a schema allows null as one of its types. */
function isNull(schema: unknown): boolean {
  return isJsonObject(schema) && [schema.type].flat().includes('null')
}

function defined(object: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined))
}
