import type { z } from 'zod'
import { ApiError } from '../../../base/domain/errors.ts'
import type { JsonObject } from '../../../base/runtime/json-object.ts'
import { keyPath } from '../../../base/runtime/key-path.ts'
import { invalidField, missingField } from './body-refusal.ts'

/** OpenAI defines about 40 fields. A body with 300,000 would block the event loop for a second. */
const KEYS_MAX = 256

/** Throws ApiError for the first issue that `schema` finds in `value`, the field `at` of the body. */
export function checkValue(schema: z.ZodType, value: unknown, at: string): void {
  const result = schema.safeParse(value)
  if (result.success) return
  const { path, message } = firstIssue(result.error.issues)
  let found = value
  for (const step of path) found = (found as JsonObject | undefined)?.[step as string]
  const param = keyPath(path, at)
  throw found === undefined ? missingField(param, message) : invalidField(param, message, found)
}

/** Throws ApiError if the object at `param` has more fields than any request needs. */
export function refuseManyKeys(value: JsonObject, param: string): void {
  let keys = 0
  for (const key in value) {
    if (++keys > KEYS_MAX) {
      throw new ApiError('invalid_value', {
        message: `${param === '' ? 'The body' : `"${param}"`} has more than ${KEYS_MAX} fields, such as "${key.slice(0, 40)}". Send only fields of the API.`,
        param: param === '' ? undefined : param,
      })
    }
  }
}

/** Throws ApiError if `value` is a list of more than `max` items. */
export function refuseLongList(value: unknown, max: number, param: string): void {
  if (Array.isArray(value) && value.length > max) {
    throw new ApiError('invalid_value', {
      message: `"${param}" must have at most ${max} items; it has ${value.length}.`,
      param,
    })
  }
}

/**
 * Returns the first issue. For a union it prefers an issue inside one of the branches, which is more specific.
 */
function firstIssue(
  issues: readonly z.core.$ZodIssue[],
  at: readonly PropertyKey[] = [],
): { path: PropertyKey[]; message: string } {
  const issue = issues[0]!
  const path = [...at, ...issue.path]
  if (issue.code === 'invalid_union') {
    const deeper = issue.errors.find(branch => (branch[0]?.path.length ?? 0) > 0)
    if (deeper) return firstIssue(deeper, path)
  }
  return { path, message: issue.message }
}
