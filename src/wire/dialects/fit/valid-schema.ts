import { isJsonObject, type JsonObject } from '../../../base/runtime/json-object.ts'
import { withoutNullable } from '../nullable-schema.ts'

// What clients and their MCP servers send as JSON Schema is often none: drafts 3 and 4, OpenAPI, PHP's empty lists for empty
// objects, types of other languages. Vendors refuse the whole request for one of them: "JSON schema is invalid. It must match
// JSON Schema draft 2020-12", "[] is not of type 'object'", "True is not of type 'number'" (anomalyco/opencode issue 2082,
// openclaw/openclaw issue 29416, smallmain/vscode-unify-chat-provider issue 162).

const types = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'] as const
const typeNames: ReadonlyMap<string, string> = new Map([
  ...types.map(type => [type, type] as const),
  ...(['str', 'text', 'date', 'datetime', 'date-time', 'uuid', 'file', 'enum'] as const).map(
    name => [name, 'string'] as const,
  ),
  ...(['int', 'int32', 'int64', 'long'] as const).map(name => [name, 'integer'] as const),
  ...(['float', 'double', 'decimal'] as const).map(name => [name, 'number'] as const),
  ...(['dict', 'map', 'struct', 'json', 'record'] as const).map(name => [name, 'object'] as const),
  ...(['list', 'tuple', 'set'] as const).map(name => [name, 'array'] as const),
  ...(['bool'] as const).map(name => [name, 'boolean'] as const),
  ...(['none', 'nil'] as const).map(name => [name, 'null'] as const),
])

/** What may stand as the value of a keyword: the value for the vendor, or undefined if none does. */
type Check = (value: unknown) => unknown

const schema: Check = value => (isJsonObject(value) || typeof value === 'boolean' ? value : undefined)
const text: Check = value => (typeof value === 'string' ? value : undefined)
const flag: Check = value => (typeof value === 'boolean' ? value : undefined)
const number: Check = value => {
  const read = typeof value === 'string' && value.trim() !== '' ? Number(value) : value
  return typeof read === 'number' && Number.isFinite(read) ? read : undefined
}
const count: Check = value => {
  const read = number(value)
  return Number.isSafeInteger(read) && (read as number) >= 0 ? read : undefined
}
const divisor: Check = value => {
  const read = number(value)
  return (read as number) > 0 ? read : undefined
}
const schemas: Check = value => {
  if (!Array.isArray(value)) return undefined
  const valid = value.filter(each => schema(each) !== undefined)
  return valid.length === 0 ? undefined : sameOr(value, valid)
}
/** A text in place of a schema is its type, except for the keyword `type` itself among properties by mistake. */
const named: Check = value => {
  if (!isJsonObject(value)) return undefined
  let isChanged = false
  const valid: [string, unknown][] = []
  for (const [name, each] of Object.entries(value)) {
    const kept = schema(each) ?? (name === 'type' ? undefined : typeSchema(each))
    if (kept !== each) isChanged = true
    if (kept !== undefined) valid.push([name, kept])
  }
  return isChanged ? Object.fromEntries(valid) : value
}
const names: Check = value => {
  if (!Array.isArray(value)) return undefined
  const valid = [...new Set(value.filter(each => typeof each === 'string'))]
  return sameOr(value, valid)
}
const values: Check = value => {
  if (!Array.isArray(value) || value.length === 0) return undefined
  const seen = new Set<string>()
  const unique = value.filter(each => seen.size < seen.add(JSON.stringify(each)).size)
  return sameOr(value, unique)
}
const pattern: Check = value => {
  if (typeof value !== 'string') return undefined
  try {
    new RegExp(value, 'u')
    return value
  } catch {
    return undefined
  }
}
const type: Check = value => {
  if (!Array.isArray(value)) return typeNames.get(String(value).toLowerCase())
  const read = [...new Set(value.map(each => typeNames.get(String(each).toLowerCase())))].filter(
    each => each !== undefined,
  )
  return read.length === 0 ? undefined : sameOr(value, read)
}

const checks: Readonly<Record<string, Check>> = {
  type,
  enum: values,
  ...Object.fromEntries(
    ['$ref', '$schema', '$id', '$anchor', 'title', 'description', 'format'].map(name => [name, text]),
  ),
  ...Object.fromEntries(['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'].map(name => [name, number])),
  ...Object.fromEntries(
    [
      ...['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties', 'minContains'],
      'maxContains',
    ].map(name => [name, count]),
  ),
  ...Object.fromEntries(['anyOf', 'oneOf', 'allOf', 'prefixItems'].map(name => [name, schemas])),
  ...Object.fromEntries(
    ['properties', '$defs', 'definitions', 'patternProperties', 'dependentSchemas'].map(name => [name, named]),
  ),
  ...Object.fromEntries(
    [
      ...['items', 'additionalProperties', 'additionalItems', 'not', 'if', 'then', 'else', 'contains', 'propertyNames'],
      ...['unevaluatedItems', 'unevaluatedProperties'],
    ].map(name => [name, schema]),
  ),
  ...Object.fromEntries(['uniqueItems', 'deprecated', 'readOnly', 'writeOnly'].map(name => [name, flag])),
  multipleOf: divisor,
  pattern,
  required: names,
}

/** A list is the given one unless something was left out of it. */
function sameOr(given: readonly unknown[], valid: readonly unknown[]): readonly unknown[] {
  return valid.length === given.length && valid.every((each, at) => each === given[at]) ? given : valid
}

function typeSchema(value: unknown): JsonObject | undefined {
  const read = typeof value === 'string' ? typeNames.get(value.toLowerCase()) : undefined
  return read === undefined ? undefined : { type: read }
}

/**
 * Returns one level of a schema as JSON Schema 2020-12: the given object if it is valid, else a copy. Keywords of older drafts
 * and of OpenAPI are translated; those without a meaning are left out.
 *
 * @param left gets the keywords that constrained something and are gone
 */
export function validLevel(given: JsonObject, left: (keyword: string, value: unknown) => void): JsonObject {
  // A level with null as a choice is another one than the given, with its keywords inside the other choice.
  const level = given.nullable === undefined ? given : withoutNullable(given)
  let copy: JsonObject | null = level === given ? null : level
  const own = (): JsonObject => {
    copy ??= { ...level }
    return copy
  }
  if (Array.isArray(level.items)) moveTuple(own())
  for (const side of ['Minimum', 'Maximum'] as const) {
    if (typeof level[`exclusive${side}`] === 'boolean') moveExclusive(own(), side)
  }
  const required = requiredInside(level.properties)
  if (required.length > 0) own().required = [...(Array.isArray(level.required) ? level.required : []), ...required]
  if (typeof level.$schema === 'string' && /draft-0[34]/.test(level.$schema)) delete own().$schema
  const current = copy ?? level
  for (const keyword of Object.keys(current)) {
    const check = Object.hasOwn(checks, keyword) ? checks[keyword] : undefined
    const value = current[keyword]
    // A null means that the keyword is absent, which is not this function's matter.
    if (check === undefined || value === null) continue
    const valid = check(value)
    if (valid === value) continue
    if (valid === undefined) {
      delete own()[keyword]
      if (keyword === 'pattern' && typeof value === 'string') left(keyword, value)
    } else own()[keyword] = valid
  }
  return copy ?? level
}

/** A list of items was a tuple before 2020-12. */
function moveTuple(schema: JsonObject): void {
  const { items, additionalItems } = schema
  delete schema.items
  delete schema.additionalItems
  if ((items as unknown[]).length > 0) schema.prefixItems = items
  if (isJsonObject(additionalItems)) schema.items = additionalItems
}

/** Until draft 4 a flag said that a limit is exclusive. */
function moveExclusive(schema: JsonObject, side: 'Minimum' | 'Maximum'): void {
  const inclusive = side.toLowerCase()
  const isExclusive = schema[`exclusive${side}`] === true
  delete schema[`exclusive${side}`]
  if (!isExclusive || schema[inclusive] === undefined) return
  schema[`exclusive${side}`] = schema[inclusive]
  delete schema[inclusive]
}

/** Until draft 3 a property itself said that it is required. */
function requiredInside(properties: unknown): string[] {
  if (!isJsonObject(properties)) return []
  return Object.keys(properties).filter(name => {
    const property = properties[name]
    return isJsonObject(property) && property.required === true
  })
}

/**
 * Returns a schema in which each reference leads to a definition at its top, as vendors want: other places of the schema
 * become definitions, and a reference that leads nowhere is left out ("PointerToNowhere").
 */
export function withDefinitions(top: JsonObject): JsonObject {
  const text = JSON.stringify(top)
  if (!text.includes('"$ref"')) return top
  const added = new AddedDefinitions(top, text.length)
  const read = (value: unknown): unknown => {
    if (Array.isArray(value)) return sameOr(value, value.map(read))
    if (!isJsonObject(value)) return value
    let copy: JsonObject | null = null
    for (const [key, inner] of Object.entries(value)) {
      if (key === '$ref' && typeof inner === 'string') {
        const ref = reference(inner, top, added)
        if (ref === inner) continue
        copy ??= { ...value }
        if (ref === null) delete copy.$ref
        else copy.$ref = ref
        continue
      }
      const next = read(inner)
      if (next === inner) continue
      copy ??= { ...value }
      copy[key] = next
    }
    return copy ?? value
  }
  const result = read(top) as JsonObject
  if (added.names.size === 0) return result
  const definitions = Object.fromEntries([...added.names].map(([target, name]) => [name, read(target)]))
  return { ...result, $defs: { ...(isJsonObject(result.$defs) && result.$defs), ...definitions } }
}

/** Definitions may have this many times the characters of their schema: places inside of each other are copied often. */
const DEFINITIONS_PER_SCHEMA = 4
/** Each reference repeats the name. */
const NAME_CHARACTERS_MAX = 64

/**
 * The places of a schema that become definitions. There are many ways to write a reference to one place
 * (`#/properties/a`, `#/properties/%61`), so a place is known by its object.
 */
class AddedDefinitions {
  readonly names = new Map<JsonObject, string>()
  readonly #taken: Set<string>
  #charactersLeft: number
  #lastNumber = 1

  constructor({ $defs }: JsonObject, characters: number) {
    this.#taken = new Set(isJsonObject($defs) ? Object.keys($defs) : [])
    this.#charactersLeft = characters * DEFINITIONS_PER_SCHEMA
  }

  /** Returns the name of the definition; null if there is no room for it, nor for any after it. */
  nameOf(target: JsonObject, ref: string): string | null {
    const known = this.names.get(target)
    if (known !== undefined) return known
    if (this.#charactersLeft <= 0) return null
    this.#charactersLeft -= JSON.stringify(target).length
    if (this.#charactersLeft < 0) return null
    const start = ref
      .slice(2)
      .replace(/[^a-zA-Z0-9_]+/g, '_')
      .slice(0, NAME_CHARACTERS_MAX)
    let name = start
    while (this.#taken.has(name)) name = `${start}_${++this.#lastNumber}`
    this.#taken.add(name)
    this.names.set(target, name)
    return name
  }
}

/** Returns the reference for the vendor; null if it leads nowhere. */
function reference(ref: string, top: JsonObject, added: AddedDefinitions): string | null {
  if (/^#\/(?:\$defs|definitions)\/[^/]+$/.test(ref) && schema(targetOf(ref, top)) !== undefined) return ref
  if (ref === '#' || !ref.startsWith('#/')) return ref === '#' ? ref : null
  const target = targetOf(ref, top)
  const name = isJsonObject(target) ? added.nameOf(target, ref) : null
  return name === null ? null : `#/$defs/${name}`
}

function targetOf(ref: string, top: JsonObject): unknown {
  let at: unknown = top
  for (const part of ref.slice(2).split('/')) {
    const key = decode(part).replaceAll('~1', '/').replaceAll('~0', '~')
    if (Array.isArray(at)) at = at[Number(key)]
    else if (isJsonObject(at) && Object.hasOwn(at, key)) at = at[key]
    else return undefined
  }
  return at
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}
