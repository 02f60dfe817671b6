import type { Clock } from './scheduler.ts'

/** An error is logged again after this time, ms. */
const EVERY_MS = 60_000
/** Beyond this many different errors, all of them count as new. */
const KINDS_MAX = 1_000

interface Kind {
  readonly loggedMs: number
  /** Lines that were left out since then. */
  repeated: number
}

/**
 * Returns the fields of a line to log, or undefined when a line with the same message and the same kind of error was
 * logged less than a minute ago. The next line that is logged has the number of those left out as `repeated`.
 *
 * During an outage of PostgreSQL, everything that uses it tries again each second or more often. All other lines are
 * logged: each may be about another customer, mail or request.
 *
 * @param isOutage whether an error says that PostgreSQL is away
 */
export function createRepeatedErrors({ monotonicMs }: Pick<Clock, 'monotonicMs'>, isOutage: (error: Error) => boolean) {
  const kinds = new Map<string, Kind>()
  return (fields: Readonly<Record<string, unknown>>, message: string): object | undefined => {
    const err = Object.values(fields).find(value => value instanceof Error)
    if (err === undefined || (fields.code !== 'database_unavailable' && !isOutage(err))) return fields
    const nowMs = monotonicMs()
    // graphile-worker writes the error, the number of the attempt and the time until the next one into its messages.
    const unchanged = message.replace(err.message, '').replace(/[\d.]+/g, '')
    const key = `${unchanged} ${'code' in err && err.code !== undefined ? err.code : err.message}`
    const kind = kinds.get(key)
    if (kind !== undefined && nowMs - kind.loggedMs < EVERY_MS) {
      kind.repeated++
      return undefined
    }
    if (kinds.size >= KINDS_MAX) kinds.clear()
    kinds.set(key, { loggedMs: nowMs, repeated: 0 })
    return kind === undefined || kind.repeated === 0 ? fields : { ...fields, repeated: kind.repeated }
  }
}
