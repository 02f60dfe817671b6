import type { z } from 'zod'
import { ApiError } from '../../../base/domain/errors.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import { isJsonObject } from '../../../base/runtime/json-object.ts'
import { keyPath } from '../../../base/runtime/key-path.ts'
import { fieldCodes } from './field-codes.ts'

// Errors about the fields of a JSON body, worded the same for every endpoint. `allowed` completes the sentence
// "`param` must be ...".

export function missingField(param: string, allowed?: string): ApiError {
  const message = `"${param}" is required${allowed === undefined ? '' : `: it must be ${allowed}`}.`
  return new ApiError('missing_parameter', { message, param })
}

/** @param found undefined if the field is missing */
export function invalidField(param: string, allowed: string, found: unknown): ApiError {
  if (found === undefined) return missingField(param, allowed)
  return new ApiError('invalid_value', { message: `"${param}" must be ${allowed}; got ${formatValue(found)}.`, param })
}

/**
 * Returns the error for the first issue in a body that allows no unknown fields. `what` names the thing that
 * the body describes, such as `a key`.
 */
export function bodyRefusal(
  { issues }: z.ZodError,
  input: unknown,
  { what, schema }: { readonly what: string; readonly schema: z.ZodObject },
): ApiError {
  const issue = elementAt(issues, 0)
  if (issue.code === 'unrecognized_keys' && issue.path.length > 0) {
    const at = keyPath(issue.path)
    const param = `${at}.${elementAt(issue.keys, 0).slice(0, 40)}`
    return new ApiError('invalid_value', {
      param,
      message: `${JSON.stringify(param)} is not a field: "${at}" must be ${issue.message}.`,
    })
  }
  if (issue.code === 'unrecognized_keys') {
    const param = elementAt(issue.keys, 0).slice(0, 40)
    const fields = Object.keys(schema.shape).join(', ')
    const message = `${JSON.stringify(param)} is not a field of ${what}. The fields are ${fields}.`
    return new ApiError('invalid_value', { param, message })
  }
  const param = keyPath(issue.path)
  let found = input
  for (const step of issue.path) found = (found as Record<PropertyKey, unknown> | undefined)?.[step]
  return refusedField(param, issue.message, found)
}

/** As `invalidField`, with codes for the pages of the console. */
export function refusedField(param: string, allowed: string, found: unknown): ApiError {
  const { code, message: text } = invalidField(param, allowed, found)
  return new ApiError(code, { message: { text, codes: fieldCodes(param, allowed, found === undefined) }, param })
}

/** Formats a value that was sent, short enough for an error message. */
function formatValue(value: unknown): string {
  if (Array.isArray(value)) return value.length === 0 ? 'an empty array' : 'an array'
  if (isJsonObject(value)) return 'an object'
  if (typeof value !== 'string') return String(value)
  return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)
}
