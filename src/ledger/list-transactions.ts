import type { Sql } from '../db/pool.ts'
import type { Nanos } from '../domain/money.ts'

/** A line of a customer's statement. */
export interface Transaction {
  readonly kind: 'signup_credit' | 'credit' | 'refund' | 'usage'
  /** Negative for usage. */
  readonly amountNanos: Nanos
  /** Of usage: the beginning of the UTC day whose requests it sums. */
  readonly at: Date
  readonly reason: string | null
  /** Of a refund. */
  readonly requestId: string | null
  /** Of usage: how many requests the day had, free ones included. */
  readonly requests: number | null
  readonly position: Position
}

/** Where a line stands in the order of the list: its time in microseconds since 1970, then its ledger transaction; 0 for usage. */
export interface Position {
  readonly atMicros: bigint
  readonly txId: bigint
}

/**
 * Up to `limit` lines of a customer's statement that are older than `before`, newest first. All lines together are the balance, exactly.
 * Credits and refunds stand for themselves. Charges are summed by the UTC day in which their requests began: in the ledger they come in
 * batches, a thousand an hour of a busy customer, and which requests met in a batch means nothing.
 */
export async function listTransactions(
  sql: Sql,
  customerId: string,
  { limit, before }: { limit: number; before: Position | null },
): Promise<Transaction[]> {
  const { rows } = await sql.query<Row>(LIST_TRANSACTIONS, [
    customerId,
    limit,
    before?.atMicros ?? END_OF_TIME_MICROS,
    before?.txId ?? 0n,
  ])
  return rows.map(({ at_micros, tx_id, requests, ...line }) => ({
    ...line,
    at: new Date(Number(at_micros / 1000n)),
    requests: requests === null ? null : Number(requests),
    position: { atMicros: at_micros, txId: tx_id },
  }))
}

/** In the year 5138. */
const END_OF_TIME_MICROS = 10n ** 17n

interface Row {
  readonly kind: Transaction['kind']
  readonly amountNanos: Nanos
  readonly at_micros: bigint
  readonly tx_id: bigint
  readonly reason: string | null
  readonly requestId: string | null
  readonly requests: bigint | null
}

// Each part stops at the limit by itself: the days along the key of usage_day, what was given along an index that has nothing else.
const LIST_TRANSACTIONS = `
SELECT * FROM (
  (
    SELECT t.kind, e.amount_nanos AS "amountNanos", (extract(epoch FROM t.at) * 1000000)::bigint AS at_micros, t.tx_id, t.reason,
      CASE WHEN t.kind = 'refund' THEN t.ref END AS "requestId", NULL::bigint AS requests
    FROM ledger_entry e JOIN ledger_tx t USING (tx_id)
    WHERE e.account_kind = 'customer' AND e.account_id = $1 AND e.amount_nanos > 0
      AND (t.at, t.tx_id) < (timestamptz 'epoch' + $3::bigint * interval '1 microsecond', $4::bigint)
    ORDER BY t.at DESC, t.tx_id DESC LIMIT $2
  ) UNION ALL (
    SELECT 'usage', -sum(cost_nanos)::bigint, (extract(epoch FROM day) * 1000000)::bigint, 0, NULL, NULL, sum(requests)::bigint
    FROM usage_day
    WHERE customer_id = $1 AND (day, 0) < (timestamp 'epoch' + $3::bigint * interval '1 microsecond', $4::bigint)
    GROUP BY day HAVING sum(cost_nanos) > 0
    ORDER BY day DESC LIMIT $2
  )
) AS line
ORDER BY at_micros DESC, tx_id DESC
LIMIT $2`
