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

/** Returns the key of a `cursor` that the schema of the query has checked; null without one, for the first page. */
export function keyOfCursor(cursor: string | undefined, pattern: RegExp): string | null {
  if (cursor === undefined) return null
  const key = readCursor(cursor, pattern)
  if (key === undefined) throw new Error('The schema of the query lets through cursors that it does not allow.')
  return key
}

/**
 * Splits rows into a page of at most `limit` and the cursor of the next page, if there is one: the caller reads one row
 * more.
 *
 * @param keyOf the key of a row, from which the next page goes on
 */
export function pageOf<Row>(
  rows: readonly Row[],
  limit: number,
  keyOf: (row: Row) => string,
): { page: Row[]; next_cursor: string | null } {
  const last = rows[limit - 1]
  return {
    page: rows.slice(0, limit),
    next_cursor: last !== undefined && rows.length > limit ? writeCursor(keyOf(last)) : null,
  }
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
