import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'

/** A span of UTC days such as `2026-11-24`, both included. */
export interface DaySpan {
  readonly from: string
  readonly until: string
}

const DAY_MS = 86_400_000
const DAYS_MAX = 366

/**
 * A UTC day of a query. The bounds leave room for the days around it: with `until=0001-01-01`, the default of `from`
 * would be in a year that PostgreSQL does not read, and the day after 9999-12-31 in one that ISO 8601 writes
 * differently.
 */
export const utcDay = z.iso
  .date('must be a UTC day such as 2026-11-24')
  .refine(day => day >= '1970-01-01' && day <= '2999-12-31', 'must be a day of the years 1970 to 2999')

/** The query of a report over a span. */
export const daySpanQuery = z.object({
  from: utcDay.optional().describe('The first UTC day. Default: 29 days before `until`.'),
  until: utcDay.optional().describe('The last UTC day. Default: today.'),
})

/** Fills in the defaults. Throws ApiError `invalid_value` for a span that is empty or longer than 366 days. */
export function daySpan(query: z.output<typeof daySpanQuery>, nowMs: number): DaySpan {
  const until = query.until ?? new Date(nowMs).toISOString().slice(0, 10)
  const from = query.from ?? new Date(Date.parse(until) - 29 * DAY_MS).toISOString().slice(0, 10)
  const days = (Date.parse(until) - Date.parse(from)) / DAY_MS + 1
  if (days >= 1 && days <= DAYS_MAX) return { from, until }
  throw new ApiError('invalid_value', {
    message: `The span must have 1 to ${DAYS_MAX} days, and \`from\` must not be after \`until\`.`,
    param: 'from',
  })
}
