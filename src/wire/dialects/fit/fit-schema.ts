import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { validLevel, withDefinitions } from './valid-schema.ts'
import type { SchemaRules } from './vendor-rules.ts'

/** Keywords with one schema, with a list of schemas, and with schemas by their names. */
const schemaKeywords: ReadonlySet<string> = new Set([
  ...['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames'],
  ...['unevaluatedItems', 'unevaluatedProperties', 'additionalItems'],
])
const listKeywords: ReadonlySet<string> = new Set(['anyOf', 'oneOf', 'allOf', 'prefixItems'])
const mapKeywords: ReadonlySet<string> = new Set([
  ...['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'],
])
/** Keywords for which null is a value; elsewhere it means that the keyword is absent. */
const nullable: ReadonlySet<string> = new Set(['const', 'default', 'example'])
/**
 * Constraints that move into the description where a vendor refuses them. Other keywords do not constrain the values.
 */
const toldKeywords: ReadonlySet<string> = new Set([
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf', 'minLength', 'maxLength', 'pattern'],
  ...['format', 'minItems', 'maxItems', 'uniqueItems', 'contains', 'minContains', 'maxContains', 'prefixItems'],
  ...[
    'minProperties',
    'maxProperties',
    'propertyNames',
    'patternProperties',
    'additionalProperties',
    'additionalItems',
  ],
  ...['dependentRequired', 'dependentSchemas', 'const', 'enum', 'not', 'if', 'then', 'else', 'anyOf', 'oneOf', 'allOf'],
])
/** The rules for a schema at its place: inside of a tuple, or outside of any. */
interface PlaceRules extends SchemaRules {
  readonly isInTuple?: boolean
}

/** Constraints longer than this are left out of the description. */
const TOLD_CHARACTERS_MAX = 1_000

/**
 * Returns a schema that a vendor accepts: the given one if it fits, as most do, else a copy of what changes.
 * Constraints that the vendor refuses move into the description, as in the vendors' own SDKs.
 */
export function fitSchema(given: JsonObject, rules: PlaceRules): JsonObject {
  const told: [keyword: string, value: unknown][] = []
  const valid = rules.isValid ? validLevel(given, (keyword, value) => told.push([keyword, value])) : given
  const schema = rules.isDefined ? definedOnly(valid) : valid
  if (rules.hasBareRefs && schema.$ref !== undefined && Object.keys(schema).length > 1) return wrapRef(schema, rules)
  let copy: JsonObject | null = null
  const own = (): JsonObject => {
    copy ??= { ...schema }
    return copy
  }
  for (const keyword of Object.keys(schema)) {
    const value = schema[keyword]
    if (value === null && !nullable.has(keyword)) {
      delete own()[keyword]
      continue
    }
    if (isRefused(keyword, value, rules)) {
      delete own()[keyword]
      const instead = replacement(keyword, schema, rules)
      if (instead !== null) own()[instead[0]] = fitValue(instead[0], instead[1], rules)
      else if (toldKeywords.has(keyword)) told.push([keyword, value])
      continue
    }
    const fitted = fitValue(keyword, value, rules)
    if (fitted !== value) own()[keyword] = fitted
  }
  if (rules.isClosed && isObjectSchema(schema) && schema.additionalProperties !== false) {
    if (isJsonObject(schema.additionalProperties)) told.push(['additionalProperties', schema.additionalProperties])
    own().additionalProperties = false
  }
  if (rules.needsItems && isListSchema(schema) && !isJsonObject(schema.items)) own().items = itemsOf(schema, rules)
  if (told.length > 0) own().description = describe(schema.description, told)
  return copy ?? schema
}

/**
 * Returns the schema of a function's arguments: an object with `properties`. OpenAI refuses one without them, and
 * combinations of objects at the top.
 */
export function fitParameters(schema: unknown, rules: SchemaRules): JsonObject {
  let top = isJsonObject(schema) ? schema : {}
  if (rules.isValid) top = withDefinitions(withoutNullAtTop(top))
  if (rules.isPlainAtTop) top = plainTop(top)
  const isObject = top.type === 'object' && isJsonObject(top.properties)
  const fitting = isObject
    ? top
    : { ...top, type: 'object', properties: isJsonObject(top.properties) ? top.properties : {} }
  return fitSchema(fitting, rules)
}

/** Arguments and answers are objects at every vendor, whatever `nullable` says. */
export function withoutNullAtTop(schema: JsonObject): JsonObject {
  if (schema.nullable === undefined) return schema
  const { nullable: _, ...others } = schema
  return others
}

function isRefused(keyword: string, value: unknown, { keywords, refused, formats, minItemsMax }: SchemaRules): boolean {
  if (refused?.has(keyword) || (keywords !== null && !keywords.has(keyword))) return true
  if (keyword === 'format') return formats !== null && !formats.has(String(value))
  return keyword === 'minItems' && typeof value === 'number' && value > minItemsMax
}

/** What says the same in the words of the vendor; null if nothing does. */
function replacement(
  keyword: string,
  { [keyword]: value, anyOf }: JsonObject,
  { keywords, hasOnlyAnyOf }: SchemaRules,
): [string, unknown] | null {
  if (anyOf === undefined && keywords?.has('anyOf')) {
    if (keyword === 'oneOf') return ['anyOf', value]
    // What satisfies the only schema of a list satisfies one of them.
    if (keyword === 'allOf' && Array.isArray(value) && value.length === 1) return ['anyOf', value]
  }
  if (keyword === 'const' && hasOnlyAnyOf && typeof value === 'string' && value !== '') return ['enum', [value]]
  return null
}

/** Schemas of pydantic describe a property beside its `$ref`. */
function wrapRef({ $ref, ...others }: JsonObject, rules: PlaceRules): JsonObject {
  const { anyOf } = others
  return anyOf === undefined ? fitSchema({ ...others, anyOf: [{ $ref }] }, rules) : fitSchema(others, rules)
}

function fitValue(keyword: string, value: unknown, rules: PlaceRules): unknown {
  if (schemaKeywords.has(keyword)) return isJsonObject(value) ? fitSchema(value, rules) : value
  if (keyword === 'prefixItems') return Array.isArray(value) ? fitEach(value, inTuple(rules)) : value
  if (listKeywords.has(keyword)) return Array.isArray(value) ? fitEach(value, rules) : value
  return mapKeywords.has(keyword) && isJsonObject(value) ? fitNamed(value, rules) : value
}

function fitEach(schemas: readonly unknown[], rules: PlaceRules): readonly unknown[] {
  const fitted = schemas.map(schema => (isJsonObject(schema) ? fitSchema(schema, rules) : schema))
  return fitted.every((schema, index) => schema === schemas[index]) ? schemas : fitted
}

/** `true` stands for any value; vendors want an object. */
function fitNamed(schemas: JsonObject, rules: PlaceRules): JsonObject {
  let isChanged = false
  const fitted = Object.entries(schemas).map(([name, schema]): [string, unknown] => {
    const fits = isJsonObject(schema) ? fitSchema(schema, rules) : {}
    if (fits !== schema) isChanged = true
    return [name, fits]
  })
  return isChanged ? Object.fromEntries(fitted) : schemas
}

function isObjectSchema({ type, properties }: JsonObject): boolean {
  return type === 'object' || (Array.isArray(type) && type.includes('object')) || isJsonObject(properties)
}

function isListSchema({ type }: JsonObject): boolean {
  return type === 'array' || (Array.isArray(type) && type.includes('array'))
}

/**
 * A tuple has no more than its own items, but the vendor wants to know what they are. Tuples inside of it are not
 * repeated, or each level would double the schema.
 */
function itemsOf({ prefixItems }: JsonObject, rules: PlaceRules): JsonObject {
  return Array.isArray(prefixItems) && !rules.isInTuple ? { anyOf: fitEach(prefixItems, inTuple(rules)) } : {}
}

function inTuple(rules: PlaceRules): PlaceRules {
  return rules.isInTuple ? rules : { ...rules, isInTuple: true }
}

function definedOnly(schema: JsonObject): JsonObject {
  const { properties, required, enum: values } = schema
  let copy: JsonObject | null = null
  if (isJsonObject(properties) && Array.isArray(required)) {
    const defined = required.filter(name => Object.hasOwn(properties, String(name)))
    if (defined.length < required.length) copy = { ...schema, required: defined }
  }
  if (Array.isArray(values)) {
    const known = values.filter(value => typeof value === 'number' || (typeof value === 'string' && value !== ''))
    if (known.length < values.length) {
      copy ??= { ...schema }
      if (known.length > 0) copy.enum = known
      else delete copy.enum
      // Google's own word: its lists of values have no null.
      if (known.length > 0 && values.includes(null)) {
        copy.nullable = true
        if (Array.isArray(copy.type)) copy.type = withoutNull(copy.type)
      }
    }
  }
  return copy ?? schema
}

function withoutNull(types: readonly unknown[]): unknown {
  const others = types.filter(type => type !== 'null')
  return others.length === 1 ? others[0] : others
}

function describe(description: unknown, told: readonly (readonly [keyword: string, value: unknown])[]): string {
  const rest = told.map(([keyword, value]) => `${keyword}: ${JSON.stringify(value)}`)
  const text = `{${rest.join(', ')}}`
  const before = typeof description === 'string' ? description : ''
  if (text.length > TOLD_CHARACTERS_MAX) return before
  return before === '' ? text : `${before}\n\n${text}`
}

const combinations = ['anyOf', 'oneOf', 'allOf'] as const

/**
 * Joins combinations of objects at the top into one object: it has the properties of all, and requires what each of
 * them requires. The combinations move into the description, and so do `not`, `enum` and `const`.
 */
function plainTop(schema: JsonObject): JsonObject {
  const { anyOf, oneOf, allOf, not, enum: values, const: value, ...plain } = schema
  const removed: JsonObject = { anyOf, oneOf, allOf, not, enum: values, const: value }
  const told = Object.entries(removed).filter(([, value]) => value !== undefined && value !== null)
  if (told.length === 0) return schema
  const properties: [string, unknown][] = []
  const required = new Set(namesIn(plain.required))
  for (const keyword of combinations) {
    const branches = Array.isArray(removed[keyword]) ? (removed[keyword] as unknown[]) : []
    // Many branches may refer to one definition, whose properties are the same each time.
    const objects = [...new Set(branches.map(branch => resolve(branch, schema)).filter(isJsonObject))]
    for (const branch of objects) {
      if (!isJsonObject(branch.properties)) continue
      for (const property of Object.entries(branch.properties)) properties.push(property)
    }
    for (const name of requiredBy(objects, keyword === 'allOf')) required.add(name)
  }
  const own = isJsonObject(plain.properties) ? Object.entries(plain.properties) : []
  return {
    ...plain,
    type: 'object',
    properties: Object.fromEntries([...properties, ...own]),
    ...(required.size > 0 && { required: [...required] }),
    description: describe(plain.description, told),
  }
}

/** The names that every branch requires; of all that must hold, those that any requires. */
function requiredBy(branches: readonly JsonObject[], allHold: boolean): readonly string[] {
  const lists = branches.map(({ required }) => namesIn(required))
  if (allHold) return lists.flat()
  const [first = [], ...others] = lists.map(list => new Set(list))
  return [...first].filter(name => others.every(list => list.has(name)))
}

function namesIn(value: unknown): string[] {
  return Array.isArray(value) ? value.filter(name => typeof name === 'string') : []
}

/** A branch may stand among the definitions. */
function resolve(branch: unknown, { $defs, definitions }: JsonObject): unknown {
  if (!isJsonObject(branch) || typeof branch.$ref !== 'string') return branch
  const name = /^#\/(?:\$defs|definitions)\/([^/]+)$/.exec(branch.$ref)?.[1]
  if (name === undefined) return branch
  const holder = [definitions, $defs].filter(isJsonObject).find(named => Object.hasOwn(named, name))
  return holder === undefined ? branch : holder[name]
}
