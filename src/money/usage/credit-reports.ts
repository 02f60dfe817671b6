import { refuseOutage } from '../../base/db/refuse-outage.ts'
import type { Caller } from '../../base/domain/caller.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { type Nanos, usd, usdText } from '../../base/domain/money.ts'
import { csvRecord } from '../../base/runtime/csv.ts'
import {
  type Credits,
  type CreditTransactions,
  keyOfTransaction,
  readTransactionsCursor,
  statementColumns,
  type TransactionsCursor,
  type TransactionsQuery,
} from '../../wire/api/credits.ts'
import { pageOf } from '../../wire/api/cursor.ts'

/** Reports on the credit of one customer. Every method throws `database_unavailable` without a database. */
export interface CreditReports {
  credits(caller: Caller): Promise<Credits>
  /** Returns one page. Throws `invalid_value` for a period that ends before it begins. */
  transactions(caller: Caller, query: TransactionsQuery): Promise<CreditTransactions>
  /** Returns the whole statement of a period as CSV, newest first, in pieces. Throws like `transactions`. */
  statement(caller: Caller, period: Period): Promise<AsyncIterable<string>>
}

/** UTC days. `to` is exclusive. */
interface Period {
  readonly from?: string | undefined
  readonly to?: string | undefined
}

const LINES_PER_PIECE = 1_000

export function createCreditReports(deps: {
  readCredits: (customerId: string) => Promise<CreditFigures | undefined>
  listTransactions: (
    customerId: string,
    page: Period & { limit: number; before: TransactionsCursor | null },
  ) => Promise<readonly StatementLine[]>
}): CreditReports {
  const list = (customerId: string, page: Period & { limit: number; before: TransactionsCursor | null }) =>
    deps.listTransactions(customerId, page).catch(refuse)

  return {
    async credits({ customerId }) {
      const figures = (await deps.readCredits(customerId).catch(refuse)) ?? NO_ACCOUNT
      return {
        balance_usd: usd(figures.balanceNanos),
        granted_usd: usd(figures.grantedNanos),
        spent_usd: usd(figures.spentNanos),
        refunded_usd: usd(figures.refundedNanos),
        debt_usd: usd(figures.debtNanos),
        held_usd: usd(figures.heldNanos),
      }
    },
    async transactions({ customerId }, query) {
      requirePeriod(query)
      const { limit, from, to } = query
      // One extra line shows whether there is a next page.
      const lines = await list(customerId, { limit: limit + 1, before: readTransactionsCursor(query), from, to })
      const { page, next_cursor } = pageOf(lines, limit, line => keyOfTransaction(line.position))
      return {
        data: page.map(line => ({
          kind: line.kind,
          amount_usd: usd(line.amountNanos),
          balance_usd: usd(line.balanceNanos),
          at: line.at.toISOString(),
          reason: line.reason,
          request_id: line.requestId,
          requests: line.requests,
        })),
        next_cursor,
      }
    },
    async statement({ customerId }, period) {
      requirePeriod(period)
      const pieceAfter = (before: TransactionsCursor | null) =>
        list(customerId, { ...period, limit: LINES_PER_PIECE, before })
      return writeStatement(await pieceAfter(null), pieceAfter)
    },
  }
}

function requirePeriod({ from, to }: Period): void {
  if (from === undefined || to === undefined || from < to) return
  throw new ApiError('invalid_value', { param: 'from', message: '"from" must be earlier than "to".' })
}

async function* writeStatement(
  first: readonly StatementLine[],
  pieceAfter: (before: TransactionsCursor) => Promise<readonly StatementLine[]>,
): AsyncGenerator<string> {
  yield csvRecord(statementColumns)
  let piece = first
  for (let last = piece.at(-1); last !== undefined; last = piece.at(-1)) {
    yield piece.map(csvLine).join('')
    if (piece.length < LINES_PER_PIECE) return
    piece = await pieceAfter(last.position)
  }
}

function csvLine(line: StatementLine): string {
  return csvRecord([
    line.at.toISOString(),
    line.kind,
    { decimal: usdText(line.amountNanos) },
    { decimal: usdText(line.balanceNanos) },
    String(line.requests ?? ''),
    line.requestId ?? '',
    line.reason ?? '',
  ])
}

interface CreditFigures {
  readonly balanceNanos: Nanos
  readonly grantedNanos: Nanos
  readonly spentNanos: Nanos
  readonly refundedNanos: Nanos
  readonly debtNanos: Nanos
  readonly heldNanos: Nanos
}

const NO_ACCOUNT: CreditFigures = {
  balanceNanos: 0n,
  grantedNanos: 0n,
  spentNanos: 0n,
  refundedNanos: 0n,
  debtNanos: 0n,
  heldNanos: 0n,
}

interface StatementLine {
  readonly kind: CreditTransactions['data'][number]['kind']
  readonly amountNanos: Nanos
  readonly balanceNanos: Nanos
  readonly at: Date
  readonly reason: string | null
  readonly requestId: string | null
  readonly requests: number | null
  readonly position: TransactionsCursor
}

function refuse(thrown: unknown): never {
  refuseOutage(thrown, 'The database does not answer, so the credit cannot be read. Retry later.')
}
