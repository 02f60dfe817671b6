import { z } from 'zod'
import { queryInteger } from './query-integer.ts'

/** Where a page of transactions ends. What is in a cursor is nobody's business but ours: callers get and send it as text. */
export interface TransactionsCursor {
  readonly atMicros: bigint
  readonly txId: bigint
}

export function writeTransactionsCursor({ atMicros, txId }: TransactionsCursor): string {
  return Buffer.from(`${atMicros}.${txId}`).toString('base64url')
}

/** Undefined when no answer of ours had such a cursor. */
function readTransactionsCursor(text: string): TransactionsCursor | undefined {
  const match = /^(\d{1,17})\.(\d{1,18})$/.exec(Buffer.from(text, 'base64url').toString('latin1'))
  if (!match) return undefined
  const cursor = { atMicros: BigInt(match[1]!), txId: BigInt(match[2]!) }
  // The decoder overlooks what does not belong there; one cursor has one spelling.
  return writeTransactionsCursor(cursor) === text ? cursor : undefined
}

const CURSOR_ALLOWED = 'must be the next_cursor of an earlier answer, unchanged'

/** Query of the list of transactions. */
export const transactionsQuery = z.object({
  limit: queryInteger({ max: 100, example: 50 })
    .default(50)
    .meta({ description: 'The most transactions to answer with.', examples: [50] }),
  cursor: z
    .string(CURSOR_ALLOWED)
    .refine(text => readTransactionsCursor(text) !== undefined, CURSOR_ALLOWED)
    .optional()
    .meta({ description: 'Where to go on: the next_cursor of the answer before. Without it, the newest come first.' }),
})

/** The place a parsed query asks for; null is the newest. */
export function cursorOf({ cursor }: z.output<typeof transactionsQuery>): TransactionsCursor | null {
  return cursor === undefined ? null : readTransactionsCursor(cursor)!
}

export const credits = z
  .object({
    balance_usd: z
      .number()
      .describe('Remaining credit, USD: exactly granted_usd + refunded_usd - spent_usd. Holds are part of it.'),
    granted_usd: z.number().nonnegative().describe('Signup credit and all credit since.'),
    spent_usd: z.number().nonnegative().describe('All charges, those included that were refunded later.'),
    refunded_usd: z.number().nonnegative().describe('All refunds.'),
    held_usd: z
      .number()
      .nonnegative()
      .describe('Held right now for running requests and the next ones; what is not used of it comes back.'),
  })
  .meta({
    id: 'Credits',
    examples: [{ balance_usd: 4.999738, granted_usd: 5, spent_usd: 0.000282, refunded_usd: 0.00002, held_usd: 0 }],
  })
export type Credits = z.infer<typeof credits>

export const creditTransactions = z
  .object({
    data: z
      .array(
        z.object({
          kind: z
            .enum(['signup_credit', 'credit', 'refund', 'usage'])
            .describe('`usage`: the charges of all requests that began on one UTC day.'),
          amount_usd: z.number().describe('USD, at most 9 decimals; negative for usage.'),
          at: z.string().describe('ISO 8601 in UTC. Of usage: 00:00 of its day.'),
          reason: z.string().nullable().describe('Why, as the operator wrote it; null for usage.'),
          request_id: z.string().nullable().describe('The request that was refunded; else null.'),
          requests: z
            .int()
            .nonnegative()
            .nullable()
            .describe('Of usage: the requests of the day, free ones too; else null.'),
        }),
      )
      .describe('Newest first. All transactions together are the balance, exactly.'),
    next_cursor: z
      .string()
      .nullable()
      .describe('Send it as `cursor` for the transactions before these; null at the end.'),
  })
  .meta({
    id: 'CreditTransactions',
    examples: [
      {
        data: [
          {
            kind: 'refund',
            amount_usd: 0.00002,
            at: '2026-11-21T09:14:02.118Z',
            reason: 'wrong language',
            request_id: '00000000-0000-7000-8000-000000000001',
            requests: null,
          },
          {
            kind: 'signup_credit',
            amount_usd: 5,
            at: '2026-11-21T09:09:55.120Z',
            reason: 'signup credit',
            request_id: null,
            requests: null,
          },
        ],
        next_cursor: null,
      },
    ],
  })
export type CreditTransactions = z.infer<typeof creditTransactions>
