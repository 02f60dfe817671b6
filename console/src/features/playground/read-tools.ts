import { t } from '@lingui/core/macro'

/** A function that the model may call, as OpenAI's chat API takes it. */
export interface Tool {
  readonly type: 'function'
  readonly function: {
    readonly name: string
    readonly description?: string
    readonly parameters?: object
  }
}

export interface ToolsRead {
  readonly tools: readonly Tool[]
  /** What is wrong and where; null if nothing is. */
  readonly problem: string | null
}

/**
 * Reads functions from JSON: a list of tools in OpenAI's form, of bare functions, or one of them. Checks each schema, so
 * that a typo is found before a server refuses it in words of its own.
 */
export function readTools(json: string): ToolsRead {
  if (json.trim() === '') return { tools: [], problem: null }
  let value: unknown
  try {
    value = JSON.parse(json)
  } catch (error) {
    return { tools: [], problem: t`This is not JSON: ${(error as Error).message}` }
  }
  const tools = (Array.isArray(value) ? value : [value]).map(each =>
    isObject(each) && isObject(each.function) ? each : { type: 'function', function: each },
  )
  const problem =
    tools.map((tool, index) => toolProblem(tool as JsonObject, t`Function ${index + 1}`)).find(text => text !== null) ??
    repeatedName(tools as Tool[])
  return problem === null ? { tools: tools as Tool[], problem } : { tools: [], problem }
}

type JsonObject = Readonly<Record<string, unknown>>

function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function toolProblem({ type, function: called }: JsonObject, place: string): string | null {
  if (type !== 'function') return t`${place}: type must be "function".`
  if (!isObject(called)) return t`${place} must be an object with a name and parameters.`
  const { name, description, parameters } = called
  if (typeof name !== 'string' || !/^[\w-]{1,64}$/.test(name)) {
    return t`${place}: name must have 1 to 64 letters, digits, "_" or "-".`
  }
  if (description !== undefined && typeof description !== 'string') return t`${name}: description must be a text.`
  if (parameters === undefined) return null
  if (!isObject(parameters) || parameters.type !== 'object') {
    return t`${name}: parameters must be a JSON schema with "type": "object".`
  }
  return schemaProblem(parameters, `${name}: parameters`)
}

function repeatedName(tools: readonly Tool[]): string | null {
  const names = tools.map(({ function: { name } }) => name)
  const repeated = names.find((name, index) => names.indexOf(name) < index)
  return repeated === undefined ? null : t`Two functions have the name ${repeated}.`
}

const types = new Set(['string', 'number', 'integer', 'boolean', 'object', 'array', 'null'])
/** Keywords with one schema, with a list of schemas, and with schemas by name. */
const single = ['items', 'additionalProperties', 'not', 'contains', 'propertyNames', 'if', 'then', 'else']
const listed = ['anyOf', 'oneOf', 'allOf', 'prefixItems']
const named = ['properties', 'patternProperties', '$defs', 'definitions']

/** Finds the first mistake in a JSON schema. Keywords that it does not know are left to the server. */
function schemaProblem(schema: unknown, place: string): string | null {
  if (typeof schema === 'boolean') return null
  if (!isObject(schema)) return t`${place} must be a schema, which is an object.`
  const { type, required, enum: values } = schema
  const wrong = (type === undefined ? [] : [type].flat()).find(each => !types.has(each as string))
  if (wrong !== undefined) return t`${place}.type: ${JSON.stringify(wrong)} is no type of JSON schema.`
  if (values !== undefined && (!Array.isArray(values) || values.length === 0)) {
    return t`${place}.enum must be a list of values.`
  }
  // It may name properties that this level does not list: alternatives do, and so do `allOf`, `$ref` and patterns.
  if (required !== undefined && !Array.isArray(required)) return t`${place}.required must be a list of names.`
  const inner: [string, unknown][] = single
    .filter(key => schema[key] !== undefined)
    .map(key => [`${place}.${key}`, schema[key]])
  for (const key of listed) {
    const schemas = schema[key]
    if (schemas === undefined) continue
    if (!Array.isArray(schemas)) return t`${place}.${key} must be a list of schemas.`
    inner.push(...schemas.map((each, index): [string, unknown] => [`${place}.${key}[${index}]`, each]))
  }
  for (const key of named) {
    const schemas = schema[key]
    if (schemas === undefined) continue
    if (!isObject(schemas)) return t`${place}.${key} must be an object of schemas.`
    inner.push(...Object.entries(schemas).map(([name, each]): [string, unknown] => [`${place}.${key}.${name}`, each]))
  }
  return inner.map(([at, each]) => schemaProblem(each, at)).find(text => text !== null) ?? null
}

/** What the field of functions shows on request. */
export const exampleTools = JSON.stringify(
  [
    {
      name: 'get_weather',
      description: t`The weather of a city.`,
      parameters: {
        type: 'object',
        properties: { city: { type: 'string' }, unit: { type: 'string', enum: ['celsius', 'fahrenheit'] } },
        required: ['city'],
      },
    },
  ],
  null,
  2,
)
