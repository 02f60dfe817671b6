import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'

/**
 * Whether OpenAI's strict mode can express a schema without another meaning. It refuses optional properties, objects
 * with any keys, and values of any type: "'required' is required to be supplied and to be an array including every key
 * in properties", "schema must have a 'type' key" (juspay/neurolink pull request 1691, getzep/graphiti issue 1751).
 *
 * @param isTop the top must be an object
 */
export function canBeStrict(schema: unknown, isTop = true): boolean {
  if (!isJsonObject(schema)) return false
  if (isTop && schema.type !== 'object') return false
  if (!typeKeys.some(key => schema[key] !== undefined)) return false
  if (Array.isArray(schema.allOf) && schema.allOf.length > 1) return false
  if (hasType(schema, 'object') && !isClosable(schema)) return false
  if (hasType(schema, 'array') && !isJsonObject(schema.items)) return false
  return innerSchemas(schema).every(inner => canBeStrict(inner, false))
}

/** One of them says what a value is. */
const typeKeys = ['type', '$ref', 'anyOf', 'oneOf', 'allOf', 'enum', 'const'] as const

function hasType({ type }: JsonObject, name: string): boolean {
  return type === name || (Array.isArray(type) && type.includes(name))
}

/** Whether all properties are required, and others are neither wanted nor the purpose of the object. */
function isClosable({ properties, required, additionalProperties: others, patternProperties }: JsonObject): boolean {
  if (isJsonObject(others) || others === true || isJsonObject(patternProperties)) return false
  if (!isJsonObject(properties)) return others === false
  const names = new Set<unknown>(Array.isArray(required) ? required : [])
  const defined = Object.keys(properties)
  return names.size === defined.length && defined.every(name => names.has(name))
}

function innerSchemas(schema: JsonObject): unknown[] {
  const inner: unknown[] = schema.items === undefined ? [] : [schema.items]
  for (const keyword of ['properties', '$defs', 'definitions']) {
    const named = schema[keyword]
    if (isJsonObject(named)) inner.push(...Object.values(named))
  }
  for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
    const list = schema[keyword]
    if (Array.isArray(list)) inner.push(...list)
  }
  return inner
}
