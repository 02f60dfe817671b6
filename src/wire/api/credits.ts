import { z } from 'zod'
import type { Nanos } from '../../base/domain/money.ts'
import { cursorParameter, keyOfCursor } from './cursor.ts'
import { utcDay } from './day-span.ts'
import { queryInteger } from './query-integer.ts'

/**
 * The end of a page of transactions, which are listed newest first. The page went back to the usage of `day`
 * and to the transaction `txId`.
 */
export interface TransactionsCursor {
  /** UTC days since 1970. */
  readonly day: number
  readonly txId: bigint
  /** The balance after the next transaction; undefined in cursors of versions that did not know it. */
  readonly balanceNanos?: Nanos | undefined
}

const cursorKey = /^(\d{1,6})\.(\d{1,18})(?:\.(-?\d{1,19}))?$/

/** The key of the cursor after a transaction: see `pageOf`. */
export function keyOfTransaction({ day, txId, balanceNanos }: TransactionsCursor): string {
  return balanceNanos === undefined ? `${day}.${txId}` : `${day}.${txId}.${balanceNanos}`
}

/** Query of `GET /v1/credits/transactions`. */
export const transactionsQuery = z.object({
  limit: queryInteger({ max: 100, example: 50 })
    .default(50)
    .meta({ description: 'Maximum number of transactions per page, 1 to 100.', examples: [50] }),
  cursor: cursorParameter(cursorKey),
  from: utcDay
    .optional()
    .meta({ description: 'Only transactions of this UTC day and later ones.', examples: ['2026-11-01'] }),
  to: utcDay.optional().meta({ description: 'Only transactions before this UTC day.', examples: ['2026-12-01'] }),
})
export type TransactionsQuery = z.output<typeof transactionsQuery>

/** Returns the cursor of a parsed query; null for the first page. */
export function readTransactionsCursor({ cursor }: z.output<typeof transactionsQuery>): TransactionsCursor | null {
  const key = keyOfCursor(cursor, cursorKey)
  if (key === null) return null
  const [day = '', txId = '', balance] = key.split('.')
  return { day: Number(day), txId: BigInt(txId), ...(balance !== undefined && { balanceNanos: BigInt(balance) }) }
}

export const credits = z
  .object({
    balance_usd: z
      .number()
      .describe('Remaining credit in USD, including held money: exactly `granted_usd` + `refunded_usd` - `spent_usd`.'),
    granted_usd: z
      .number()
      .nonnegative()
      .describe('Signup credit and all credit added since, in USD, less payments that were taken back.'),
    spent_usd: z.number().nonnegative().describe('All charges in USD, including those refunded later.'),
    refunded_usd: z.number().nonnegative().describe('All refunds in USD.'),
    debt_usd: z
      .number()
      .nonnegative()
      .describe('Owed in USD for payments that were taken back after they were spent. New credit pays it first.'),
    held_usd: z.number().nonnegative().describe('USD held for running requests. The unused part is released.'),
  })
  .meta({
    id: 'Credits',
    examples: [
      { balance_usd: 4.999738, granted_usd: 5, spent_usd: 0.000282, refunded_usd: 0.00002, debt_usd: 0, held_usd: 0 },
    ],
  })
export type Credits = z.infer<typeof credits>

export const creditTransactions = z
  .object({
    data: z
      .array(
        z.object({
          kind: z
            .enum([
              'signup_credit',
              'credit',
              'payment',
              'voucher',
              'refund',
              'reversal',
              'reversal_returned',
              'debt_payment',
              'earnings_moved',
              'opening_balance',
              'cell_move',
              'usage',
            ])
            .describe(
              '`usage` is the charges of all requests that began on one UTC day, in total. `reversal` is a payment that was taken back, and `debt_payment` pays what it left owed. `earnings_moved` is what a hoster of this customer earned. `opening_balance` was brought over from another installation, and `cell_move` from or to another cell of this one.',
            ),
          amount_usd: z
            .number()
            .describe('USD with at most 9 decimals; negative for `usage`, `reversal` and `debt_payment`.'),
          balance_usd: z
            .number()
            .describe('The balance in USD after this transaction: the sum of it and all older ones.'),
          at: z
            .string()
            .describe(
              'ISO 8601 in UTC. For `usage`, the end of the day, or the time of the report until the day has ended.',
            ),
          reason: z.string().nullable().describe('Reason given by the operator; null for `usage`.'),
          request_id: z.string().nullable().describe('Id of the refunded request; null for other kinds.'),
          requests: z
            .int()
            .nonnegative()
            .nullable()
            .describe('For `usage`, the number of requests of the day, including free ones; null for other kinds.'),
        }),
      )
      .describe('Newest first. The amounts of all transactions sum exactly to the balance.'),
    next_cursor: z
      .string()
      .nullable()
      .describe('Send it as `cursor` to get older transactions; null on the last page.'),
  })
  .meta({
    id: 'CreditTransactions',
    examples: [
      {
        data: [
          {
            kind: 'refund',
            amount_usd: 0.00002,
            balance_usd: 5.00002,
            at: '2026-11-21T09:14:02.118Z',
            reason: 'wrong language',
            request_id: '00000000-0000-7000-8000-000000000001',
            requests: null,
          },
          {
            kind: 'signup_credit',
            amount_usd: 5,
            balance_usd: 5,
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

/** The columns of the statement as CSV, in order. */
export const statementColumns = ['at', 'kind', 'amount_usd', 'balance_usd', 'requests', 'request_id', 'reason'] as const

/** Query of `GET C/credits/statement`. */
export const statementQuery = transactionsQuery.pick({ from: true, to: true })
