import { ApiError } from '../domain/errors.ts'

/**
 * What a request carries as its API key: `Authorization: Bearer <key>`, or `x-api-key` or `api-key` when there is no Authorization.
 * Every fault is the same `invalid_api_key`: a guess learns nothing from the answer.
 *
 * @param rawHeaders names and values in turn, as Node's `request.rawHeaders`; merged headers hide that one was sent twice
 */
export function credentialOf(rawHeaders: readonly string[]): string {
  const authorization = valuesOf(rawHeaders, 'authorization')
  const key = authorization.length > 0 ? bearerToken(only(authorization)) : only(aliasValues(rawHeaders))
  if (key === undefined) throw new ApiError('invalid_api_key')
  return key
}

function aliasValues(rawHeaders: readonly string[]): string[] {
  return [...valuesOf(rawHeaders, 'x-api-key'), ...valuesOf(rawHeaders, 'api-key')]
}

function valuesOf(rawHeaders: readonly string[], name: string): string[] {
  const values: string[] = []
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const sent = rawHeaders[i]!
    if (sent.length === name.length && sent.toLowerCase() === name) values.push(rawHeaders[i + 1]!)
  }
  return values
}

function only(values: readonly string[]): string | undefined {
  return values.length === 1 ? values[0]!.trim() : undefined
}

function bearerToken(value: string | undefined): string | undefined {
  return /^bearer +(\S+)$/i.exec(value ?? '')?.[1]
}
