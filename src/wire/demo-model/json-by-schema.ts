type Json = null | boolean | number | string | Json[] | { [key: string]: Json }
type Rules = { readonly [keyword: string]: unknown }

interface Work {
  readonly root: unknown
  readonly nextText: () => string
  /** Untrusted schemas are large, or refer to themselves. Every 100 names or characters read count as one value. */
  valuesLeft: number
}

/** Optional members and items end here, because a schema that refers to itself would never end. */
const OPTIONAL_DEPTH_MAX = 3
const ITEMS_MAX = 64

/**
 * Builds one value of a simple JSON schema: type, properties, required, items, minItems, enum, const, minimum, maximum,
 * anyOf (its first branch) and local `$ref`. Ignores the rest. Terminates quickly and never throws for any schema.
 * @param nextText returns a short text for each free string
 */
export function jsonBySchema(schema: unknown, nextText: () => string): Json {
  return build(schema, { root: schema, nextText, valuesLeft: 500 }, 0)
}

function build(schema: unknown, work: Work, depth: number): Json {
  const rules = resolve(schema, work)
  work.valuesLeft -= 1
  const fixed = 'const' in rules ? [rules.const] : asList(rules.enum)
  if (fixed.length > 0) {
    work.valuesLeft -= JSON.stringify(fixed[0]).length / 100
    return fixed[0] as Json
  }
  const type = asList(rules.type).find(name => name !== 'null') ?? rules.type
  if (type === 'object' || rules.properties !== undefined) return buildObject(rules, work, depth)
  if (type === 'array') return buildArray(rules, work, depth)
  if (type === 'boolean') return true
  if (type === 'integer' || type === 'number') {
    return Math.min(Math.max(5, numberOr(rules.minimum, 5)), numberOr(rules.maximum, Number.MAX_VALUE))
  }
  return type === 'string' || type === undefined ? work.nextText() : null
}

function resolve(schema: unknown, work: Work): Rules {
  let rules = asRules(schema)
  for (; work.valuesLeft > 0; work.valuesLeft -= 1) {
    const { $ref: reference } = rules
    const [branch] = asList(rules.anyOf)
    if (typeof reference === 'string') {
      work.valuesLeft -= reference.length / 100
      const [, ...path] = reference.split('/', 10)
      rules = asRules(path.reduce<unknown>((found, name) => member(asRules(found), name), work.root))
    } else if (branch !== undefined) rules = asRules(branch)
    else break
  }
  return rules
}

function buildObject(rules: Rules, work: Work, depth: number): Json {
  const properties = asRules(rules.properties)
  const required = new Set<string>(asList(rules.required).filter(name => typeof name === 'string'))
  const names = new Set([...Object.keys(properties), ...required])
  work.valuesLeft -= names.size / 100
  const entries: [string, Json][] = []
  for (const name of names) {
    if (work.valuesLeft <= 0) break
    if (depth >= OPTIONAL_DEPTH_MAX && !required.has(name)) continue
    entries.push([name, build(member(properties, name), work, depth + 1)])
  }
  return Object.fromEntries(entries)
}

function buildArray(rules: Rules, work: Work, depth: number): Json {
  const count = Math.min(Math.max(numberOr(rules.minItems, 0), depth < OPTIONAL_DEPTH_MAX ? 1 : 0), ITEMS_MAX)
  const items: Json[] = []
  while (items.length < count && work.valuesLeft > 0) items.push(build(rules.items, work, depth + 1))
  return items
}

function member(rules: Rules, name: string): unknown {
  return Object.hasOwn(rules, name) ? rules[name] : undefined
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

function asRules(value: unknown): Rules {
  return typeof value === 'object' && value !== null ? (value as Rules) : {}
}
