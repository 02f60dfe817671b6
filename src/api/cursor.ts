import { z } from 'zod'

/** Where a page ends, as text that nobody is led to compute: callers get a `next_cursor` and send it back as `cursor`. */
export function writeCursor(key: string): string {
  return Buffer.from(key).toString('base64url')
}

/** The key in a cursor; undefined when no answer of ours had such a one. */
export function readCursor(cursor: string, pattern: RegExp): string | undefined {
  const key = Buffer.from(cursor, 'base64url').toString('latin1')
  // The decoder overlooks what does not belong there; one cursor has one spelling.
  return pattern.test(key) && writeCursor(key) === cursor ? key : undefined
}

/** The `cursor` of a query: one whose key matches `pattern`. */
export function cursorParameter(pattern: RegExp) {
  const allowed = 'must be the next_cursor of an earlier answer, unchanged'
  return z
    .string(allowed)
    .refine(cursor => readCursor(cursor, pattern) !== undefined, allowed)
    .optional()
    .meta({ description: 'Where to go on: the `next_cursor` of the answer before. Without it, the newest come first.' })
}
