import { z } from 'zod'
import { UUID } from '../../../base/runtime/uuid.ts'
import { outcomes } from '../activity.ts'
import { cursorParameter } from '../cursor.ts'
import { reportProviders } from '../reports.ts'

const failures = [
  ...['connect_failed', 'server_error', 'first_token_timeout', 'malformed', 'empty', 'busy'],
  ...['credential_rejected', 'request_rejected', 'cancelled'],
] as const

const once = 'must be sent once, with at most 256 characters'
const text = z.string(once).min(1, once).max(256, once).optional()
const uuid = (what: string) =>
  z
    .string(once)
    .refine(value => UUID.test(value), `must be the id of a ${what}`)
    .optional()

/** The time of a request, as PostgreSQL writes it, and its id. */
export const requestLogCursor = /^\d{4,6}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?[+-]\d\d(?::\d\d)?\|[0-9a-f-]{36}$/

export const requestLogQuery = z.object({
  limit: z
    .string(once)
    .regex(/^(?:[1-9]\d?|100)$/, 'must be a whole number, 1 to 100')
    .transform(Number)
    .optional(),
  cursor: cursorParameter(requestLogCursor),
  id: uuid('request'),
  customer: uuid('customer'),
  key: uuid('key'),
  label: text,
  model: text,
  server: text,
  error: text.describe(
    'A part of what a server answered when it failed. Searches the texts that are kept: see `error`.',
  ),
  provider: z.enum(reportProviders, `must be one of ${reportProviders.join(', ')}`).optional(),
  outcome: z.enum(outcomes, `must be one of ${outcomes.join(', ')}`).optional(),
  failure: z.enum(failures, `must be one of ${failures.join(', ')}`).optional(),
})
export type RequestLogQuery = z.output<typeof requestLogQuery>

export const requestLog = z
  .object({
    data: z
      .array(
        z.object({
          id: z.string(),
          started_at: z.string(),
          customer: z.object({ id: z.string(), email: z.string().nullable() }),
          key: z.object({ id: z.string(), name: z.string() }).nullable(),
          label: z.string().nullable(),
          model: z.string(),
          provider: z.enum(reportProviders),
          server: z.string().nullable().describe('The endpoint that answered.'),
          outcome: z.enum(outcomes),
          success: z.boolean(),
          failures: z.array(z.string()).describe('How attempts ended that gave no answer.'),
          error: z
            .string()
            .nullable()
            .describe(
              'What servers said when attempts failed, without keys, addresses and prompts. One failure of each server and second is kept, for 7 days; null for others.',
            ),
          charged_usd: z.number(),
          latency_ms: z.int(),
        }),
      )
      .describe('The newest first. Requests of audits are left out.'),
    next_cursor: z.string().nullable(),
    looked_back_to: z
      .string()
      .nullable()
      .describe(
        'A page with filters searches at most 10,000 requests, or with `error` the newest 10,000 texts: it ended at this time. Null if the page is full.',
      ),
  })
  .meta({ id: 'RequestLog' })
export type RequestLog = z.infer<typeof requestLog>
