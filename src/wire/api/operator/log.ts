import { z } from 'zod'
import { UUID } from '../../../base/runtime/uuid.ts'
import { cursorParameter } from '../cursor.ts'
import { queryInteger } from '../query-integer.ts'

/** The key of a cursor: the number of the last entry of the page. */
export const logCursor = /^\d{1,18}$/

const filterText = 'must be a text of at most 100 characters'
const uuid = (what: string) =>
  z
    .string(what)
    .refine(text => UUID.test(text), what)
    .optional()

export const logQuery = z.object({
  action: z
    .string(filterText)
    .max(100, filterText)
    .optional()
    .describe('An action such as `credit.granted`, or its first part, such as `credit`.'),
  person: uuid('must be the id of a person'),
  customer: uuid('must be the id of a customer'),
  limit: queryInteger({ max: 100, example: 50 }).default(50),
  cursor: cursorParameter(logCursor),
})
export type LogQuery = z.output<typeof logQuery>

export const auditLogPage = z
  .object({
    data: z
      .array(
        z.object({
          id: z.int(),
          at: z.string(),
          person: z
            .object({ id: z.string(), email: z.string().nullable().describe('Null if the person no longer exists.') })
            .nullable()
            .describe('Null: a key of a customer or hoster, the command line, or the gateway itself.'),
          action: z.string(),
          subject: z.string(),
          customer: z.object({ id: z.string(), email: z.string().nullable() }).nullable(),
          detail: z
            .record(z.string(), z.unknown())
            .describe(
              '`before` and `after` for changes. `by_key_id`: the key that was used. `by_os_user`: who ran a command on the host.',
            ),
          address: z.string().nullable(),
        }),
      )
      .describe('The newest entry first.'),
    next_cursor: z.string().nullable(),
  })
  .meta({ id: 'AuditLogPage' })
export type AuditLogPage = z.infer<typeof auditLogPage>

export const logStateQuery = z.object({
  scope: z
    .enum(['newest', 'all'], 'must be newest or all')
    .default('newest')
    .describe('The newest 10,000 entries, or all of them, which takes a second for 200,000.'),
})

export const auditLogState = z
  .object({
    entries: z.int(),
    checked: z.int().describe('How many of the entries were checked, the newest ones.'),
    is_intact: z.boolean(),
    breaks: z.array(z.int()).describe('The first 20 entries that do not follow from the one before them.'),
    last_hash: z.string().nullable().describe('In hexadecimal. Note it elsewhere: it fixes the whole log up to now.'),
  })
  .meta({ id: 'AuditLogState' })
export type AuditLogState = z.infer<typeof auditLogState>
