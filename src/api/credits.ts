import { z } from 'zod'
import { cursorParameter, readCursor, writeCursor } from './cursor.ts'
import { queryInteger } from './query-integer.ts'

/** Where a page of transactions ends: it told the usage from this day on, and all else from this ledger transaction on. */
export interface TransactionsCursor {
  /** Since 1970. */
  readonly day: number
  readonly txId: bigint
}

const cursorKey = /^(\d{1,6})\.(\d{1,18})$/

export function writeTransactionsCursor({ day, txId }: TransactionsCursor): string {
  return writeCursor(`${day}.${txId}`)
}

/** Query of the list of transactions. */
export const transactionsQuery = z.object({
  limit: queryInteger({ max: 100, example: 50 })
    .default(50)
    .meta({ description: 'The most transactions to answer with.', examples: [50] }),
  cursor: cursorParameter(cursorKey),
})

/** The place a parsed query asks for; null is the newest. */
export function cursorOf({ cursor }: z.output<typeof transactionsQuery>): TransactionsCursor | null {
  if (cursor === undefined) return null
  const [, day, txId] = cursorKey.exec(readCursor(cursor, cursorKey)!)!
  return { day: Number(day), txId: BigInt(txId!) }
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
