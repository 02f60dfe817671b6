import { expect, test } from 'vitest'
import { z } from 'zod'
import { bodyRefusal } from './body-refusal.ts'

const schema = z.strictObject({
  email: z.string({ error: 'an e-mail address' }),
  days: z.int({ error: 'a whole number of days from 1 to 3650' }),
})
const codesOf = (body: object) =>
  bodyRefusal(schema.safeParse(body).error!, body, { what: 'a test', schema }).messageCodes

test('a refused field has the codes of its rule, with the values in it', () => {
  expect(codesOf({ email: 'ada@example.com', days: 1.5 })).toEqual([
    { code: 'field.wrong', values: { field: 'days' } },
    { code: 'rule.days', values: { least: '1', most: '3650' } },
  ])
  expect(codesOf({ days: 1 })).toEqual([
    { code: 'field.missing', values: { field: 'email' } },
    { code: 'rule.email', values: {} },
  ])
})
