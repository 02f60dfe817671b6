import { readFileSync } from 'node:fs'
import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import { listJournalFiles } from '../journal/journal-files.ts'
import { scanRecords } from '../journal/record.ts'
import { recoveredSettlements } from '../settlement/recovered-settlements.ts'
import type { Settlement } from '../settlement/settlement.ts'

/** What an account of the ledger holds. The accounts of one installation sum to zero. */
export interface AccountBalance {
  readonly kind: string
  /** The customer or hoster; the nil UUID for the platform's own accounts. */
  readonly account: string
  readonly amountNanos: bigint
}

/**
 * Books what the accounts of other books hold as one transaction, once per `ref`, and opens the accounts of its
 * customers. Returns whether it was booked now. Throws when a customer has an account already.
 */
export async function bookOpeningBalances(
  sql: Sql,
  { ref, reason, balances }: { ref: string; reason: string; balances: readonly AccountBalance[] },
): Promise<boolean> {
  const { booked } = await queryRow<{ booked: boolean }>(
    sql,
    'SELECT book_opening_balances($1, $2, $3, $4, $5) AS booked',
    [
      ref,
      reason,
      balances.map(({ kind }) => kind),
      balances.map(({ account }) => account),
      balances.map(({ amountNanos }) => String(amountNanos)),
    ],
  )
  return booked
}

/**
 * Sums the ledger of any version by account, with an account of zero for each customer, and adds the charges that only
 * the journals below `journalRoot` have. Its statements fit the first schema, too.
 */
export async function readAccountBalances(
  sql: Sql,
  journalRoot: string,
): Promise<{ balances: AccountBalance[]; unsettled: Settlement[] }> {
  const { rows } = await sql.query<AccountBalance>(
    `SELECT kind, account, sum(amount)::bigint AS "amountNanos" FROM (
       SELECT account_kind AS kind, account_id AS account, amount_nanos AS amount FROM ledger_entry
       UNION ALL SELECT 'customer', customer_id, 0 FROM customer
     ) AS entries GROUP BY 1, 2 ORDER BY 1, 2`,
  )
  const unsettled = await unsettledCharges(sql, journalRoot)
  const balances = new Map(rows.map(row => [`${row.kind} ${row.account}`, row]))
  const add = (kind: string, account: string, nanos: bigint) => {
    const amountNanos = (balances.get(`${kind} ${account}`)?.amountNanos ?? 0n) + nanos
    balances.set(`${kind} ${account}`, { kind, account, amountNanos })
  }
  for (const { customerId, hosterId, costNanos, hosterShareNanos, feeNanos } of unsettled) {
    add('customer', customerId, -costNanos)
    if (hosterShareNanos > 0n) add('hoster_payable', hosterId!, hosterShareNanos)
    add('platform_revenue', PLATFORM, feeNanos)
  }
  return { balances: [...balances.values()], unsettled }
}

const PLATFORM = '00000000-0000-0000-0000-000000000000'

/** The charges in journals that have no usage row: a charge is in a journal before it is in PostgreSQL. */
async function unsettledCharges(sql: Sql, journalRoot: string): Promise<Settlement[]> {
  const records = listJournalFiles(journalRoot).flatMap(({ path }) => scanRecords(readFileSync(path)).records)
  const inJournal = recoveredSettlements(records.map(({ payload }) => ({ payload, forget() {} })))
  const settlements = inJournal.map(({ settlement }) => settlement)
  const { rows } = await sql.query<{ request: string }>(
    'SELECT request_id AS request FROM usage_event WHERE request_id = ANY ($1::uuid[])',
    [settlements.map(({ requestId }) => requestId)],
  )
  const settled = new Set(rows.map(({ request }) => request))
  return settlements.filter(({ requestId, costNanos }) => !settled.has(requestId) && costNanos > 0n)
}
