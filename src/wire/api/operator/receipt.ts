import { z } from 'zod'
import { requestReceipt } from '../activity.ts'

/** The answer of `GET /console/api/operator/requests/{id}`: what the customer sees, and what only the operator knows. */
export const operatorReceipt = z
  .object({
    customer: z.object({ id: z.string(), email: z.string().nullable() }),
    receipt: requestReceipt.describe('As the customer sees it.'),
    paid_usd: z.number().describe('What the customer paid, less what was refunded.'),
    fee_usd: z.number().describe('What the platform keeps of it, before what a server charged the operator.'),
    cost_usd: z
      .number()
      .nullable()
      .describe(
        'What the operator owes for the answer: the share of the hoster, or what a server charged. Null: a cloud without a declared cost.',
      ),
    margin_usd: z.number().nullable().describe('What was paid less the cost. Null: the cost is unknown.'),
    errors: z
      .array(z.object({ server: z.string(), model: z.string(), status: z.int().nullable(), text: z.string() }))
      .describe('What servers said when attempts failed. One failure of each server and second is kept, for 7 days.'),
  })
  .meta({ id: 'OperatorReceipt' })
export type OperatorReceipt = z.infer<typeof operatorReceipt>
