/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/**
 * Builds one value that satisfies a simple JSON schema: type, properties, required, items, prefixItems, enum,
 * const, length, count and number bounds, the common string formats, anyOf/oneOf (their first branch), allOf,
 * and local `$ref`. Ignores `pattern`, `not` and conditionals.
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
    if (typeof rules.$ref === 'string') {
      spend(work, rules.$ref.length)
      rules = asRules(lookUp(work.root, rules.$ref))
    } else if (Array.isArray(rules.allOf)) {
      const { allOf, ...rest } = rules
      rules = rest
      for (const part of (allOf as unknown[]).slice(0, maxItems)) {
        if (work.valuesLeft <= 0) break
        rules = merge(rules, asRules(part), work)
      }
    } else {
      const branch = [rules.anyOf, rules.oneOf].find(branches => Array.isArray(branches) && branches.length > 0)
      if (branch === undefined) return rules
      const { anyOf: _anyOf, oneOf: _oneOf, ...rest } = rules
      rules = merge(rest, asRules((branch as unknown[])[0]), work)
    }
  }
  return {}
}

function merge(left: Rules, right: Rules, work: Work): Rules {
  for (const rules of [left, right]) {
    const lists = [Object.keys(rules), Object.keys(asRules(rules.properties)), asNames(rules.required)]
    for (const list of lists) spend(work, list.length)
  }
  if (work.valuesLeft <= 0) return left
  return {
    ...left,
    ...right,
    ...(left.properties || right.properties
      ? { properties: { ...asRules(left.properties), ...asRules(right.properties) } }
      : {}),
    ...(left.required || right.required ? { required: [...asNames(left.required), ...asNames(right.required)] } : {}),
  }
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
  if (rules.items !== undefined || rules.prefixItems !== undefined) return 'array'
  if (rules.minimum !== undefined || rules.maximum !== undefined) return 'number'
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
  const first = Array.isArray(rules.prefixItems) ? (rules.prefixItems as unknown[]) : []
  const desired = Math.max(first.length, bound(rules.minItems, 0), depth < 3 ? 1 : 0)
  const count = Math.min(desired, bound(rules.maxItems, maxItems), maxItems)
  const items: Json[] = []
  while (items.length < count && work.valuesLeft > 0) {
    items.push(build(items.length < first.length ? first[items.length] : rules.items, work, depth + 1))
  }
  return items
}

const formats: Record<string, string> = {
  'date-time': '2026-01-01T12:05:00Z',
  date: '2026-01-01',
  time: '12:05:00Z',
  duration: 'PT4M',
  email: 'signalman@example.com',
  hostname: 'example.com',
  ipv4: '192.0.2.1',
  ipv6: '2001:db8::1',
  uri: 'https://example.com/timetable',
  uuid: '00000000-0000-4000-8000-000000000000',
}

function buildString(rules: Rules, work: Work): string {
  if (typeof rules.format === 'string' && Object.hasOwn(formats, rules.format)) return formats[rules.format]!
  const shortest = Math.min(bound(rules.minLength, 0), maxCharacters)
  const longest = Math.max(shortest, Math.min(bound(rules.maxLength, maxCharacters), maxCharacters))
  return work.nextText().padEnd(shortest, '.').slice(0, longest)
}

function buildNumber(rules: Rules, type: 'integer' | 'number'): number {
  const multipleOf = number(rules.multipleOf)
  const step = multipleOf !== undefined && multipleOf > 0 ? multipleOf : type === 'integer' ? 1 : 0
  const above = number(rules.exclusiveMinimum)
  const below = number(rules.exclusiveMaximum)
  let lowest = number(rules.minimum) ?? Number.NEGATIVE_INFINITY
  let highest = number(rules.maximum) ?? Number.POSITIVE_INFINITY
  if (above !== undefined && above >= lowest) lowest = above + (step || margin(above, below))
  if (below !== undefined && below <= highest) highest = below - (step || margin(below, above))
  const preferred = Math.max(lowest, Math.min(highest, 4))
  if (step === 0) return preferred
  const atMost = Math.floor(preferred / step) * step
  return atMost >= lowest ? atMost : Math.ceil(preferred / step) * step
}

/** Returns how far to stay inside an exclusive bound: 1, or half the range if it is small. */
function margin(bound: number, other: number | undefined): number {
  return other === undefined ? 1 : Math.min(1, Math.abs(other - bound) / 2)
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
