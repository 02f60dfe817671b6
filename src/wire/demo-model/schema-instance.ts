/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/**
 * Builds one value that satisfies a simple JSON schema: type, properties, required, items, enum, const, lengths,
 * counts and bounds, some string formats, anyOf and oneOf (their first branch), and local `$ref`. Ignores the rest.
 *
 * Terminates quickly and never throws for any schema, because schemas are untrusted. Builds at most 500
 * values, then only the empty value of each type. Every 100 names or characters read count as one value.
 * Arrays are capped at 64 items and strings at 4,096 characters.
 * @param nextText returns a short text for each free string
 */
export function schemaInstance(schema: unknown, nextText: () => string): Json {
  return build(schema, { root: schema, nextText, valuesLeft: 500 }, 0)
}

const maxDepth = 24
const maxItems = 64
const maxCharacters = 4_096

interface Work {
  readonly root: unknown
  readonly nextText: () => string
  valuesLeft: number
}

function build(schema: unknown, work: Work, depth: number): Json {
  const rules = resolve(schema, work)
  work.valuesLeft -= 1
  if ('const' in rules) return literal(rules.const as Json, work)
  if (Array.isArray(rules.enum) && rules.enum.length > 0) return literal(rules.enum[0] as Json, work)
  const type = schemaType(rules)
  const mayNest = work.valuesLeft > 0 && depth < maxDepth
  if (type === 'object') return mayNest ? buildObject(rules, work, depth) : {}
  if (type === 'array') return mayNest ? buildArray(rules, work, depth) : []
  if (type === 'string') return buildString(rules, work)
  if (type === 'integer' || type === 'number') return buildNumber(rules, type)
  if (type === 'boolean') return true
  return null
}

/** Returns a value from the schema. It may be as large as the body, so it must not be repeated 500 times. */
function literal(value: Json, work: Work): Json {
  spend(work, JSON.stringify(value).length)
  return value
}

/** Charges for the size of a part of the schema, which is read again for each value that refers to it. */
function spend(work: Work, size: number): void {
  work.valuesLeft -= size / 100
}

type Rules = { readonly [keyword: string]: unknown }

function resolve(schema: unknown, work: Work): Rules {
  let rules = asRules(schema)
  // A $ref may point to another $ref, and a cycle of them would never end.
  for (let hops = 0; hops < maxDepth && work.valuesLeft > 0; hops += 1) {
    const { $ref: reference, anyOf, oneOf, ...rest } = rules
    const branch = [anyOf, oneOf].find(branches => Array.isArray(branches) && branches.length > 0)
    if (typeof reference === 'string') {
      spend(work, reference.length)
      rules = asRules(lookUp(work.root, reference))
    } else if (branch !== undefined) {
      spend(work, Object.keys(rest).length)
      rules = { ...rest, ...asRules((branch as unknown[])[0]) }
    } else return rules
  }
  return {}
}

function lookUp(root: unknown, reference: string): unknown {
  if (!reference.startsWith('#')) return {}
  let found: unknown = root
  for (const step of reference.split('/').slice(1, maxDepth)) {
    const name = step.replaceAll('~1', '/').replaceAll('~0', '~')
    if (typeof found !== 'object' || found === null || !Object.hasOwn(found, name)) return {}
    found = (found as Record<string, unknown>)[name]
  }
  return found
}

function schemaType(rules: Rules): unknown {
  const { type } = rules
  if (Array.isArray(type)) return type.find(name => name !== 'null') ?? 'null'
  if (type !== undefined) return type
  if (rules.properties !== undefined || rules.required !== undefined) return 'object'
  if (rules.items !== undefined) return 'array'
  return 'string'
}

function buildObject(rules: Rules, work: Work, depth: number): Json {
  const properties = asRules(rules.properties)
  const required = new Set(asNames(rules.required))
  const names = [...new Set([...Object.keys(properties), ...required])]
  spend(work, names.length)
  const entries: [string, Json][] = []
  for (const name of names) {
    // Stop optional members early, because a schema that refers to itself would nest as deeply as allowed.
    if (!required.has(name) && depth >= 3) continue
    if (work.valuesLeft <= 0) break
    entries.push([name, build(Object.hasOwn(properties, name) ? properties[name] : {}, work, depth + 1)])
  }
  return Object.fromEntries(entries)
}

function buildArray(rules: Rules, work: Work, depth: number): Json {
  const desired = Math.max(bound(rules.minItems, 0), depth < 3 ? 1 : 0)
  const count = Math.min(desired, bound(rules.maxItems, maxItems), maxItems)
  const items: Json[] = []
  while (items.length < count && work.valuesLeft > 0) items.push(build(rules.items, work, depth + 1))
  return items
}

const formats: Record<string, string> = {
  'date-time': '2026-01-01T12:05:00Z',
  date: '2026-01-01',
  email: 'signalman@example.com',
  uri: 'https://example.com/timetable',
  uuid: '00000000-0000-4000-8000-000000000000',
}

function buildString(rules: Rules, work: Work): string {
  if (typeof rules.format === 'string' && Object.hasOwn(formats, rules.format)) return formats[rules.format]!
  const shortest = Math.min(bound(rules.minLength, 0), maxCharacters)
  const longest = Math.max(shortest, Math.min(bound(rules.maxLength, maxCharacters), maxCharacters))
  return work.nextText().padEnd(shortest, '.').slice(0, longest)
}

/** Stays inside of bounds that are exclusive. */
function buildNumber(rules: Rules, type: 'integer' | 'number'): number {
  const lowest = number(rules.minimum) ?? number(rules.exclusiveMinimum)
  const highest = number(rules.maximum) ?? number(rules.exclusiveMaximum)
  const middle = lowest === undefined ? (highest ?? 5) - 1 : highest === undefined ? lowest + 1 : (lowest + highest) / 2
  return type === 'number' ? middle : highest === undefined ? Math.floor(middle) : Math.ceil(middle)
}

function bound(value: unknown, otherwise: number): number {
  const limit = number(value)
  return limit === undefined || limit < 0 ? otherwise : limit
}

function number(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}

function asRules(value: unknown): Rules {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Rules) : {}
}

function asNames(value: unknown): string[] {
  return Array.isArray(value) ? value.filter(name => typeof name === 'string') : []
}
