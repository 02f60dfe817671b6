import { z } from 'zod'
import { operatorScopes } from '../../../base/domain/operator-scope.ts'
import { PLAIN_TEXT } from '../../../base/runtime/plain-text.ts'
import { object } from '../console-body.ts'
import { parseStrictBody } from '../strict-body.ts'

// Keys of the operator API, under /console/api/operator/keys.

const shownKey = z.object({
  id: z.string(),
  name: z.string(),
  hint: z.string(),
  scopes: z.array(z.enum(operatorScopes)),
  person: z.object({ id: z.string(), email: z.string(), role: z.string().nullable() }),
  created_at: z.string(),
  expires_at: z.string().nullable(),
  last_used_at: z.string().nullable().describe('To the minute.'),
})
/** @public The console imports it. */
export type OperatorKeyShown = z.infer<typeof shownKey>

export const operatorKeyList = z.object({ data: z.array(shownKey) }).meta({ id: 'OperatorKeys' })
export type OperatorKeyList = z.infer<typeof operatorKeyList>

export const issuedOperatorKey = z
  .object({ id: z.string(), key: z.string().describe('Shown only in this answer.'), hint: z.string() })
  .meta({ id: 'IssuedOperatorKey' })
export type IssuedOperatorKey = z.infer<typeof issuedOperatorKey>

const nameText = { error: 'a text of 1 to 200 characters without control characters or text direction marks' }
const scopesText = { error: `a list of one or more of ${operatorScopes.join(', ')}` }
const days = { error: 'a whole number of days from 1 to 3650, or null for a key that does not expire' }
const keyOrder = z.strictObject(
  {
    name: z.string(nameText).trim().min(1, nameText).max(200, nameText).regex(PLAIN_TEXT, nameText),
    scopes: z.array(z.enum(operatorScopes, scopesText), scopesText).min(1, scopesText),
    expires_in_days: z.int(days).min(1, days).max(3650, days).nullish(),
    person_id: z.guid({ error: 'the id of an auditor' }).nullish(),
  },
  object,
)

/** Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`. */
export function parseOperatorKey(body: Buffer): z.infer<typeof keyOrder> {
  return parseStrictBody(body, keyOrder, 'a key')
}
