import { createContext, Script } from 'node:vm'
import { Validator } from '@cfworker/json-schema'

/**
 * Returns where a text breaks a schema, such as `#/tags maxItems`, in characters that a header may contain. Undefined
 * if it satisfies the schema, and if that cannot be said: the schema is no valid one, or the check takes too long.
 * The schema comes from a client, so it may contain patterns that backtrack and references that multiply.
 *
 * @param limitMs at least 1
 */
export function violationOf(schema: unknown, text: string, limitMs: number): string | undefined {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return 'no JSON'
  }
  try {
    context.check = () => firstError(schema, value)
    const found: unknown = call.runInContext(context, { timeout: Math.floor(limitMs) })
    return typeof found === 'string' ? found : undefined
  } catch {
    // Too slow, too deep, or no JSON Schema.
    return undefined
  } finally {
    context.check = undefined
  }
}

/** V8 ends what runs in a script after a time, regular expressions included. No thread has to be kept for it. */
const call = new Script('check()')
const context = createContext({ check: undefined as (() => string | null) | undefined })

function firstError(schema: unknown, value: unknown): string | null {
  const { valid, errors } = new Validator(schema as object, draftOf(schema)).validate(value)
  // The errors go from the outermost schema to the innermost.
  const innermost = errors.at(-1)
  if (valid || innermost === undefined) return null
  return `${innermost.instanceLocation} ${innermost.keyword}`.replace(/[^\w#/ .~-]/g, '_').slice(0, TEXT_MAX)
}

const TEXT_MAX = 200

function draftOf(schema: unknown): '4' | '7' | '2019-09' | '2020-12' {
  const named = String((schema as { $schema?: unknown }).$schema ?? '')
  if (named.includes('draft-04')) return '4'
  if (named.includes('draft-07') || named.includes('draft-06')) return '7'
  return named.includes('2019-09') ? '2019-09' : '2020-12'
}
