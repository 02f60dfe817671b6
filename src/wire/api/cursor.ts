import { z } from 'zod'

/** Encodes the end of a page as opaque text. Callers send a `next_cursor` back as `cursor`. */
export function writeCursor(key: string): string {
  return Buffer.from(key).toString('base64url')
}

/**
 * Decodes the key of a cursor. Returns undefined unless `writeCursor` made the cursor from a key that matches
 * `pattern`.
 */
export function readCursor(cursor: string, pattern: RegExp): string | undefined {
  const key = Buffer.from(cursor, 'base64url').toString('latin1')
  // The decoder skips invalid characters, so compare with the only valid encoding.
  return pattern.test(key) && writeCursor(key) === cursor ? key : undefined
}

/** Schema of the `cursor` parameter of a query. The key of the cursor must match `pattern`. */
export function cursorParameter(pattern: RegExp) {
  const allowed = 'must be the next_cursor of an earlier answer, unchanged'
  return z
    .string(allowed)
    .regex(/^[\w-]+$/, allowed)
    .refine(cursor => readCursor(cursor, pattern) !== undefined, allowed)
    .optional()
    .meta({ description: '`next_cursor` of the previous page. Default: the first page, with the newest entries.' })
}
