import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { hasValidChecksum } from './api-key.ts'

/** A key of a customer: itself, or its first ten and last four characters. */
export type PastedKey = { readonly key: string } | { readonly key: null; readonly hint: string }

const WHOLE = /sk-sy-[0-9A-Za-z]{38}/g
/** As `hintOf` writes it, or with three dots. */
const HINT = /(sk-sy-[0-9A-Za-z]{4})(?:…|\.\.\.)([0-9A-Za-z]{4})(?![0-9A-Za-z])/g

/**
 * Finds the key in a text that somebody has pasted: a line of a shell or an .env file, a curl command, JSON, or the hint that
 * lists show. The checksum ends a key that other letters follow. A whole key goes before hints. Throws ApiError `invalid_value` if
 * there is none, which must not look like a key that nobody has, or if there are several.
 */
export function readPastedKey(text: string): PastedKey {
  const [key, ...otherKeys] = new Set((text.match(WHOLE) ?? []).filter(each => hasValidChecksum(each)))
  if (otherKeys.length > 0) throw severalKeys(otherKeys.length + 1)
  if (key !== undefined) return { key }
  const [hint, ...otherHints] = new Set([...text.matchAll(HINT)].map(([, start, end]) => `${start}…${end}`))
  if (otherHints.length > 0) throw severalKeys(otherHints.length + 1)
  if (hint !== undefined) return { key: null, hint }
  throw new ApiError('invalid_value', { param: 'key', message: sayRefusal('refusal.no_whole_key') })
}

function severalKeys(count: number): ApiError {
  return new ApiError('invalid_value', { param: 'key', message: sayRefusal('refusal.several_keys', { count }) })
}
