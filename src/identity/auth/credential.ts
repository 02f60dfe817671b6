import { ApiError } from '../../base/domain/errors.ts'
import { headerValues } from '../../base/runtime/header-list.ts'

/**
 * Reads the API key of a request: `Authorization: Bearer <key>`, or `x-api-key`, `api-key` or `x-goog-api-key` when
 * there is no Authorization. Throws the same `invalid_api_key` for every fault, so the answer to a guessed key reveals
 * nothing.
 *
 * @param rawHeaders names and values in turn, as Node's `request.rawHeaders`; merged headers hide that one
 *   was sent twice
 */
export function credentialOf(rawHeaders: readonly string[]): string {
  const authorization = headerValues(rawHeaders, 'authorization')
  const key = authorization.length > 0 ? bearerToken(only(authorization)) : only(aliasValues(rawHeaders))
  if (key === undefined) throw new ApiError('invalid_api_key')
  return key
}

function aliasValues(rawHeaders: readonly string[]): string[] {
  return ['x-api-key', 'api-key', 'x-goog-api-key'].flatMap(name => headerValues(rawHeaders, name))
}

function only(values: readonly string[]): string | undefined {
  const [value] = values
  // `trim` would also remove other spaces, such as U+00A0, which HTTP does not allow around a value.
  return values.length === 1 && /^[\t\x20-\x7e]*$/.test(value!) ? value!.trim() : undefined
}

function bearerToken(value: string | undefined): string | undefined {
  return /^bearer +(\S+)$/i.exec(value ?? '')?.[1]
}
