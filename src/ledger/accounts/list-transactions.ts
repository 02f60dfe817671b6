import type { Sql } from '../../db/pool.ts'
import type { Nanos } from '../../domain/money.ts'

/** A line of a customer's statement. */
export interface Transaction {
  readonly kind: 'signup_credit' | 'credit' | 'refund' | 'usage'
  /** Negative for usage. */
  readonly amountNanos: Nanos
  /** For usage: the end of the UTC day that the line sums, or the time of this list until that day has ended. */
  readonly at: Date
  readonly reason: string | null
  /** The refunded request. Null for other lines. */
  readonly requestId: string | null
  /** For usage: the number of requests of the day, including free ones. */
  readonly requests: number | null
  /** The position after this line. */
  readonly position: Position
}

/** A place in the list. The next usage lines are before `day` (days since 1970), the next other lines before `txId`. */
export interface Position {
  readonly day: number
  readonly txId: bigint
}

/**
 * Returns up to `limit` lines of a customer's statement after the position `before`, newest first. All lines
 * together sum to the balance exactly. Each credit and refund is a line. Charges are summed by the UTC day in
 * which their requests began: the ledger posts them in batches, a thousand an hour for a busy customer, and
 * the grouping of requests into batches is arbitrary. A sum stands at the end of its day, after the credit that it was
 * taken from.
 *
 * Merges two lists, each read along its index and with a separate place in the cursor, so that reading a page costs
 * the same for a customer with a million refunds.
 */
export async function listTransactions(
  sql: Sql,
  customerId: string,
  { limit, before, nowEpochMs }: { limit: number; before: Position | null; nowEpochMs: number },
): Promise<Transaction[]> {
  const from = before ?? NEWEST
  const [credits, usage] = await Promise.all([
    sql.query<CreditRow>(LIST_CREDITS, [customerId, limit, from.txId]),
    sql.query<UsageRow>(LIST_USAGE, [customerId, limit, from.day]),
  ])
  // Lines that are added from now on belong before the first page, so they are not on the next one.
  let position = before ?? { txId: (credits.rows[0]?.tx_id ?? -1n) + 1n, day: (usage.rows[0]?.day ?? -1) + 1 }
  const lines: Transaction[] = []
  for (let c = 0, u = 0; lines.length < limit; ) {
    const [credit, use] = [credits.rows[c], usage.rows[u]]
    if (credit !== undefined && (use === undefined || credit.at.getTime() >= (use.day + 1) * DAY_MS)) {
      c++
      const { tx_id: txId, ...line } = credit
      position = { ...position, txId }
      lines.push({ ...line, requests: null, position })
    } else if (use !== undefined) {
      u++
      const { day, amountNanos, requests } = use
      position = { ...position, day }
      // The credit has PostgreSQL's time, which may be ahead of this clock.
      const atEpochMs = Math.max(Math.min((day + 1) * DAY_MS - 1, nowEpochMs), credit?.at.getTime() ?? 0)
      lines.push({
        kind: 'usage',
        amountNanos,
        at: new Date(atEpochMs),
        reason: null,
        requestId: null,
        requests: Number(requests),
        position,
      })
    } else break
  }
  return lines
}

const DAY_MS = 86_400_000
/** Newer than any line: the year 4707, and as many digits as a cursor has room for. */
const NEWEST: Position = { day: 999_999, txId: 10n ** 18n - 1n }

interface CreditRow {
  readonly kind: Transaction['kind']
  readonly amountNanos: Nanos
  readonly at: Date
  readonly tx_id: bigint
  readonly reason: string | null
  readonly requestId: string | null
}

// Credits and refunds in the order of their transactions. Transaction numbers are drawn under the lock of the
// balance. A partial index has exactly these entries. OFFSET 0 makes the planner look up each transaction. It
// considers a merge cheaper, but a merge reads every settlement down to the last line (5,367 rows for 2 lines
// with 600,000 requests).
const LIST_CREDITS = `
SELECT t.kind, e.amount_nanos AS "amountNanos", t.at, e.tx_id, t.reason, CASE WHEN t.kind = 'refund' THEN t.ref END AS "requestId"
FROM (
  SELECT tx_id, amount_nanos FROM ledger_entry
  WHERE account_kind = 'customer' AND account_id = $1 AND amount_nanos > 0 AND tx_id < $3
  ORDER BY tx_id DESC
  LIMIT $2
) AS e, LATERAL (SELECT * FROM ledger_tx WHERE tx_id = e.tx_id OFFSET 0) AS t
ORDER BY e.tx_id DESC`

interface UsageRow {
  readonly day: number
  readonly amountNanos: Nanos
  readonly requests: bigint
}

const LIST_USAGE = `
SELECT day - date '1970-01-01' AS day, -sum(cost_nanos)::bigint AS "amountNanos", sum(requests)::bigint AS requests
FROM usage_day
WHERE customer_id = $1 AND day < date '1970-01-01' + $3::integer
GROUP BY usage_day.day
HAVING sum(cost_nanos) > 0
ORDER BY usage_day.day DESC
LIMIT $2`
