import { z } from 'zod'

export const FIND_CHARS_MAX = 100
const text = `must be a text of 1 to ${FIND_CHARS_MAX} characters`

export const findQuery = z.object({
  q: z
    .string(text)
    .trim()
    .min(1, text)
    .max(FIND_CHARS_MAX, text)
    .describe('A part of a name or an e-mail address, or an id. Never a key itself: addresses are logged.'),
})

/** The answer of `GET /console/api/operator/find`: a few of each kind. */
export const found = z
  .object({
    customers: z.array(z.object({ id: z.string(), email: z.string(), state: z.enum(['active', 'paused']) })),
    keys: z.array(
      z.object({
        id: z.string(),
        name: z.string(),
        hint: z.string(),
        state: z.enum(['active', 'paused', 'expired']),
        customer_id: z.string(),
        customer_email: z.string(),
      }),
    ),
    hosters: z.array(z.object({ id: z.string(), name: z.string() })),
    models: z.array(z.string()),
    providers: z.array(z.string()),
    requests: z.array(z.object({ id: z.string(), customer_id: z.string() })),
  })
  .meta({ id: 'OperatorFound' })
export type Found = z.infer<typeof found>
