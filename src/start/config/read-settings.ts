import * as z from 'zod'
import { awsRegionIn } from '../../base/domain/endpoint-defaults.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import { isJsonObject } from '../../base/runtime/json-object.ts'
import { keyPath } from '../../base/runtime/key-path.ts'
import { type ConfigProblem, readYaml, UNREADABLE, WrittenNumber } from './read-yaml.ts'
import { type FileSettings, fileSchema } from './schema.ts'

/**
 * Parses the text of `switchyard.yaml` into settings with all defaults. Returns undefined when it is invalid,
 * and adds to `problems` in the order of the file.
 *
 * @param where the path of the file
 * @param notRead keys that are no settings, and that the caller reads
 */
export function readSettings(
  text: string,
  where: string,
  env: Readonly<Record<string, string | undefined>>,
  problems: ConfigProblem[],
  notRead: readonly string[] = [],
): FileSettings | undefined {
  const file = readYaml(text, where, env)
  const written =
    isJsonObject(file.value) && !(file.value instanceof WrittenNumber)
      ? Object.fromEntries(Object.entries(file.value).filter(([key]) => !notRead.includes(key)))
      : (file.value ?? {})
  const parsed = fileSchema.safeParse(written)
  const placed = [
    ...(parsed.error?.issues ?? []).flatMap(issue => problemsOf(issue, written)),
    ...contradictions(written),
  ]
  const found = placed.map(({ path, message }) => ({
    where,
    line: file.lineOf(path),
    key: path.length === 0 ? null : keyPath(path),
    message,
  }))
  const unique = found.filter(
    ({ key, message }, index) => found.findIndex(other => other.key === key && other.message === message) === index,
  )
  problems.push(...[...file.problems, ...unique].sort((a, b) => (a.line ?? 0) - (b.line ?? 0)))
  return parsed.data
}

interface PlacedProblem {
  readonly path: readonly PropertyKey[]
  readonly message: string
}

function problemsOf(issue: z.core.$ZodIssue, written: unknown): PlacedProblem[] {
  const { path } = issue
  const prefixes = [...path.keys(), path.length].map(length => path.slice(0, length))
  // The problem of an unreadable value is already reported.
  if (prefixes.some(prefix => at(written, prefix) === UNREADABLE)) return []
  // Zod treats a WrittenNumber as an object with an unknown key and without the required ones.
  const number = prefixes.find(prefix => at(written, prefix) instanceof WrittenNumber)
  if (number !== undefined && (number.length < path.length || issue.code === 'unrecognized_keys')) {
    return [{ path: number, message: wrongKindText(number, 'object') }]
  }
  if (issue.code === 'unrecognized_keys') {
    const allowed = keysAt(path)
    return issue.keys.map(key => ({ path: [...path, key], message: unknownKeyText(key, allowed) }))
  }
  if (issue.code !== 'invalid_type') return [{ path, message: issue.message }]
  if (at(written, path) === undefined) {
    const price = path.at(-1) === 'price_per_million_usd'
    const hint = price ? ': a model without a price cannot be sold; write input and output, 0 if it is free' : ''
    return [{ path, message: `is missing${hint}` }]
  }
  return [{ path, message: wrongKindText(path, issue.expected) }]
}

function wrongKindText(path: readonly PropertyKey[], expected: string): string {
  if (path.length === 0) return 'must contain keys such as server:, not a list, a text or a number'
  return expected === 'array' ? 'must be a list' : 'must contain keys'
}

function unknownKeyText(key: string, allowed: readonly string[]): string {
  const near = allowed
    .map(name => ({ name, distance: editDistance(key, name) }))
    .filter(({ name, distance }) => distance <= Math.max(2, Math.floor(name.length / 3)))
    .sort((a, b) => a.distance - b.distance)[0]
  return near ? `is not a setting; did you mean ${near.name}?` : `is not a setting; use one of ${allowed.join(', ')}`
}

/** Finds values that contradict each other. Skips values that are invalid themselves. */
function contradictions(written: unknown): PlacedProblem[] {
  const problems: PlacedProblem[] = []
  const tiers = at(written, ['account_tiers']) ?? {}
  const tierNames = new Set([...keysAt(['account_tiers']), ...Object.keys(tiers)])
  const tier = valueAt(written, ['signup', 'tier'])
  if (isJsonObject(tiers) && typeof tier === 'string' && !tierNames.has(tier)) {
    const message = `is not an account tier; use one of ${[...tierNames].join(', ')}`
    problems.push({ path: ['signup', 'tier'], message })
  }
  if (valueAt(written, ['accounts', 'sign_up']) === 'open' && valueAt(written, ['smtp', 'host']) === undefined) {
    const message = 'is open, which needs a mail server; set smtp.host, or use invite'
    problems.push({ path: ['accounts', 'sign_up'], message })
  }
  const providers = itemsAt(written, ['accounts', 'oidc'])
  providers.forEach((provider, index) => {
    const path = [...provider, 'id']
    if (!repeats(written, providers, index, 'id')) return
    problems.push({ path, message: `repeats "${valueAt(written, path)}"; each service needs a different id` })
  })
  const peers = itemsAt(written, ['cells', 'peers'])
  peers.forEach((peer, index) => {
    const path = [...peer, 'name']
    if (!repeats(written, peers, index, 'name')) return
    problems.push({ path, message: `repeats "${valueAt(written, path)}"; each cell needs a different name` })
  })
  const isCell = valueAt(written, ['cells', 'name']) !== undefined
  if (isCell && valueAt(written, ['cells', 'secret']) === undefined)
    problems.push({
      path: ['cells', 'secret'],
      message: 'is missing: gateways of other cells prove themselves with it',
    })
  const endpoints = itemsAt(written, ['endpoints'])
  endpoints.forEach((endpoint, index) => {
    const name = valueAt(written, [...endpoint, 'name'])
    const path = [...endpoint, 'name']
    if (repeats(written, endpoints, index, 'name')) {
      problems.push({ path, message: `repeats "${name}"; each endpoint needs a different name` })
    }
    if (name === 'demo') problems.push({ path, message: 'is "demo", the built-in endpoint; choose another name' })
    problems.push(...credentialContradictions(written, endpoint))
    const models = itemsAt(written, [...endpoint, 'models'])
    models.forEach((model, modelIndex) => {
      const [id, context, output] = ['id', 'context_tokens', 'max_output_tokens'].map(key =>
        valueAt(written, [...model, key]),
      )
      if (repeats(written, models, modelIndex, 'id')) {
        problems.push({ path: [...model, 'id'], message: `repeats "${id}"; an endpoint offers each model once` })
      }
      const steps = itemsAt(written, [...model, 'price_per_million_usd', 'steps'])
      steps.forEach((step, stepIndex) => {
        if (!repeats(written, steps, stepIndex, 'above_input_tokens')) return
        const path = [...step, 'above_input_tokens']
        problems.push({ path, message: `repeats ${valueAt(written, path)}; each step needs a different length` })
      })
      if (Number(output) > Number(context)) {
        const message = `is ${output}, more than its context_tokens, ${context}; input and output together must fit into the context`
        problems.push({ path: [...model, 'max_output_tokens'], message })
      }
    })
  })
  return problems
}

/** An endpoint has one credential, and keys of AWS are complete. */
function credentialContradictions(written: unknown, endpoint: readonly PropertyKey[]): PlacedProblem[] {
  const isSet = (key: string) => valueAt(written, [...endpoint, key]) !== undefined
  const [credential, ...others] = ['google_service_account', 'aws_access_key_id', 'api_key'].filter(isSet)
  const other = others.at(-1)
  const problem = (key: string, message: string) => [{ path: [...endpoint, key], message }]
  if (other !== undefined) return problem(other, `cannot be used with ${credential}; remove one of them`)
  if (isSet('aws_access_key_id') !== isSet('aws_secret_access_key')) {
    const [set, missing] = isSet('aws_access_key_id')
      ? ['_access_key_id', '_secret_access_key']
      : ['_secret_access_key', '_access_key_id']
    return problem(`aws${set}`, `needs aws${missing}`)
  }
  const baseUrl = valueAt(written, [...endpoint, 'base_url'])
  if (
    isSet('aws_access_key_id') &&
    !isSet('aws_region') &&
    typeof baseUrl === 'string' &&
    awsRegionIn(baseUrl) === null
  )
    return problem('aws_access_key_id', 'needs aws_region, because base_url names no region of AWS')
  return []
}

/** Returns the paths of the items of a list; none when the value is not a list. */
function itemsAt(written: unknown, path: readonly PropertyKey[]): PropertyKey[][] {
  const list = at(written, path)
  return Array.isArray(list) ? list.map((_, index) => [...path, index]) : []
}

/** Whether the value of `key` is valid and an earlier item has the same value. */
function repeats(written: unknown, items: PropertyKey[][], index: number, key: string): boolean {
  const value = valueAt(written, [...elementAt(items, index), key])
  return value !== undefined && items.slice(0, index).some(item => valueAt(written, [...item, key]) === value)
}

/** Returns the value of a key or its default; undefined when the written value is invalid. */
function valueAt(written: unknown, path: readonly PropertyKey[]): unknown {
  return z.safeParse(schemaAt(path)!, at(written, path)).data
}

/** Returns the keys that are allowed at a path. */
function keysAt(path: readonly PropertyKey[]): string[] {
  const schema = unwrapped(schemaAt(path))
  return schema instanceof z.ZodObject ? Object.keys(schema.shape) : []
}

/** Returns the schema of a key, with its default. */
export function schemaAt(path: readonly PropertyKey[]): z.core.$ZodType | undefined {
  return path.reduce<z.core.$ZodType | undefined>((schema, step) => {
    const outer = unwrapped(schema)
    if (outer instanceof z.ZodArray) return outer.element
    return outer instanceof z.ZodObject ? (outer.shape[String(step)] ?? outer.def.catchall) : undefined
  }, fileSchema)
}

function unwrapped(schema: z.core.$ZodType | undefined): z.core.$ZodType | undefined {
  return schema instanceof z.ZodPrefault || schema instanceof z.ZodOptional ? unwrapped(schema.def.innerType) : schema
}

function at(written: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce((inner, step) => (inner as Record<PropertyKey, unknown> | undefined)?.[step], written)
}

function editDistance(a: string, b: string): number {
  let previous = Array.from({ length: b.length + 1 }, (_, column) => column)
  for (let row = 1; row <= a.length; row++) {
    const current = [row]
    for (let column = 1; column <= b.length; column++) {
      const swap = elementAt(previous, column - 1) + (a[row - 1] === b[column - 1] ? 0 : 1)
      current.push(Math.min(swap, elementAt(previous, column) + 1, elementAt(current, column - 1) + 1))
    }
    previous = current
  }
  return elementAt(previous, b.length)
}
