import {
  type Credits,
  type CreditTransactions,
  type TransactionsCursor,
  writeTransactionsCursor,
} from '../api/credits.ts'
import { refuseOutage } from '../db/refuse-outage.ts'
import type { Caller } from '../domain/caller.ts'
import { type Nanos, usd } from '../domain/money.ts'

/** Reports on the credit of one customer. Every method throws `database_unavailable` without a database. */
export interface CreditReports {
  credits(caller: Caller): Promise<Credits>
  transactions(caller: Caller, limit: number, before: TransactionsCursor | null): Promise<CreditTransactions>
}

export function createCreditReports(deps: {
  readCredits: (customerId: string) => Promise<CreditFigures | undefined>
  listTransactions: (
    customerId: string,
    page: { limit: number; before: TransactionsCursor | null },
  ) => Promise<readonly StatementLine[]>
}): CreditReports {
  return {
    async credits({ customerId }) {
      const figures = (await deps.readCredits(customerId).catch(refuse)) ?? NO_ACCOUNT
      return {
        balance_usd: usd(figures.balanceNanos),
        granted_usd: usd(figures.grantedNanos),
        spent_usd: usd(figures.spentNanos),
        refunded_usd: usd(figures.refundedNanos),
        held_usd: usd(figures.heldNanos),
      }
    },
    async transactions({ customerId }, limit, before) {
      // One extra line shows whether there is a next page.
      const lines = await deps.listTransactions(customerId, { limit: limit + 1, before }).catch(refuse)
      const page = lines.slice(0, limit)
      return {
        data: page.map(line => ({
          kind: line.kind,
          amount_usd: usd(line.amountNanos),
          at: line.at.toISOString(),
          reason: line.reason,
          request_id: line.requestId,
          requests: line.requests,
        })),
        next_cursor: lines.length > limit ? writeTransactionsCursor(page.at(-1)!.position) : null,
      }
    },
  }
}

interface CreditFigures {
  readonly balanceNanos: Nanos
  readonly grantedNanos: Nanos
  readonly spentNanos: Nanos
  readonly refundedNanos: Nanos
  readonly heldNanos: Nanos
}

const NO_ACCOUNT: CreditFigures = {
  balanceNanos: 0n,
  grantedNanos: 0n,
  spentNanos: 0n,
  refundedNanos: 0n,
  heldNanos: 0n,
}

interface StatementLine {
  readonly kind: CreditTransactions['data'][number]['kind']
  readonly amountNanos: Nanos
  readonly at: Date
  readonly reason: string | null
  readonly requestId: string | null
  readonly requests: number | null
  readonly position: TransactionsCursor
}

function refuse(thrown: unknown): never {
  refuseOutage(thrown, 'The database does not answer, so the credit cannot be read. Retry later.')
}
