import type { Sql } from '../../../base/db/pool.ts'
import { queryRow } from '../../../base/db/query-row.ts'
import { elementAt } from '../../../base/runtime/collections.ts'
import { lowestUuidAt } from '../../../base/runtime/uuid.ts'
import type { SlicedBy } from './audit-checks.ts'

/** A part of the ledger that an audit checks at once: the ids or days from `from` to `to`, both included. */
export interface AuditSlice {
  readonly by: SlicedBy
  readonly from: string
  readonly to: string
}

/** How large slices are. The larger, the longer PostgreSQL keeps deleted rows for a check. */
export interface SliceSizes {
  /** Requests of the customers of a slice. A customer is never divided. */
  readonly requestsPerSlice: number
  /** Blocks of 65,536 transactions. */
  readonly blocksPerSlice: number
  /** Entries of the audit log. Default 200,000. */
  readonly entriesPerSlice?: number
}

/** A check of such a slice takes a few seconds. */
const defaultSizes: SliceSizes = { requestsPerSlice: 1_000_000, blocksPerSlice: 2 }

const [LOWEST_UUID, HIGHEST_UUID] = ['00000000-0000-0000-0000-000000000000', 'ffffffff-ffff-ffff-ffff-ffffffffffff']
const [LOWEST_BIGINT, HIGHEST_BIGINT] = [-(2n ** 63n), 2n ** 63n - 1n]
const BLOCK_BITS = 16n

/** Divides the ledger. The slices of each kind cover every id, also those that do not exist yet. */
export async function planAudit(sql: Sql, sizes: SliceSizes = defaultSizes): Promise<AuditSlice[]> {
  return [
    ...(await transactionSlices(sql, sizes)),
    ...(await customerSlices(sql, sizes)),
    ...(await requestSlices(sql)),
    ...(await hosterSlices(sql, sizes)),
    ...(await daySlices(sql)),
    ...(await logSlices(sql, sizes)),
    { by: 'all', from: '', to: '' },
  ]
}

async function transactionSlices(sql: Sql, { blocksPerSlice }: SliceSizes): Promise<AuditSlice[]> {
  const { last } = await queryRow<{ last: bigint }>(sql, 'SELECT coalesce(max(tx_id), 0) AS last FROM ledger_tx')
  const step = BigInt(blocksPerSlice) << BLOCK_BITS
  const slices: AuditSlice[] = []
  let from = LOWEST_BIGINT
  for (let next = step; next <= last; next += step) {
    slices.push({ by: 'transactions', from: String(from), to: String(next - 1n) })
    from = next
  }
  return [...slices, { by: 'transactions', from: String(from), to: String(HIGHEST_BIGINT) }]
}

async function customerSlices(sql: Sql, { requestsPerSlice }: SliceSizes): Promise<AuditSlice[]> {
  // The last customer of each slice but the last one.
  const { rows } = await sql.query<{ last: string }>(
    `SELECT (array_agg(customer_id ORDER BY customer_id DESC))[1] AS last FROM (
       SELECT customer_id, floor((sum(coalesce(d.requests, 0) + 1) OVER (ORDER BY customer_id) - 1) / $1) AS slice
       FROM balance LEFT JOIN (SELECT customer_id, sum(requests) AS requests FROM usage_day GROUP BY customer_id) d USING (customer_id)
     ) AS weighed GROUP BY slice ORDER BY slice`,
    [requestsPerSlice],
  )
  return rangesBetween(
    'customers',
    rows.slice(0, -1).map(row => row.last),
  )
}

/**
 * One slice for each partition. A slice of a partition would read all of it, because its key begins with the customer.
 */
async function requestSlices(sql: Sql): Promise<AuditSlice[]> {
  const { rows } = await sql.query<{ year: number; month: number }>(
    `SELECT substr(relname, 13, 4)::integer AS year, substr(relname, 18, 2)::integer AS month
     FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid
     WHERE inhparent = 'usage_event'::regclass AND relname ~ '^usage_event_\\d{4}_\\d{2}$' ORDER BY relname`,
  )
  const borders = new Set(rows.flatMap(({ year, month }) => [Date.UTC(year, month - 1), Date.UTC(year, month)]))
  return rangesBetween(
    'requests',
    [...borders].map(lowestUuidAt).map(uuid => moved(uuid, -1n)),
  )
}

async function hosterSlices(sql: Sql, { requestsPerSlice }: SliceSizes): Promise<AuditSlice[]> {
  // The last hoster of each slice but the last one. A batch of settlements has an entry for each of its hosters.
  const { rows } = await sql.query<{ last: string }>(
    `SELECT (array_agg(hoster_id ORDER BY hoster_id DESC))[1] AS last FROM (
       SELECT hoster_id, floor((sum(sum(requests) + 1) OVER (ORDER BY hoster_id) - 1) / $1) AS slice FROM hoster_line GROUP BY hoster_id
     ) AS weighed GROUP BY slice ORDER BY slice`,
    [requestsPerSlice],
  )
  return rangesBetween(
    'hosters',
    rows.slice(0, -1).map(row => row.last),
  )
}

/** Returns one slice for each month of the sums by day, and one for the time before and after them. */
async function daySlices(sql: Sql): Promise<AuditSlice[]> {
  const { rows } = await sql.query<{ first: string; last: string }>(
    `SELECT month::date::text AS first, (month + interval '1 month' - interval '1 day')::date::text AS last
     FROM (SELECT min(day)::timestamp AS from_day, max(day)::timestamp AS to_day FROM usage_day) d,
       generate_series(date_trunc('month', from_day), to_day, interval '1 month') AS month`,
  )
  const starts = ['-infinity', ...rows.slice(1).map(({ first }) => first)]
  return starts.map((from, index) => ({
    by: 'days',
    from,
    to: index === starts.length - 1 ? 'infinity' : elementAt(rows, index).last,
  }))
}

async function logSlices(sql: Sql, { entriesPerSlice = 200_000 }: SliceSizes): Promise<AuditSlice[]> {
  const { last } = await queryRow<{ last: bigint }>(sql, 'SELECT coalesce(max(entry_id), 0) AS last FROM audit_entry')
  const step = BigInt(entriesPerSlice)
  const slices: AuditSlice[] = []
  let from = 1n
  for (; from + step <= last; from += step) {
    slices.push({ by: 'logEntries', from: String(from), to: String(from + step - 1n) })
  }
  return [...slices, { by: 'logEntries', from: String(from), to: String(HIGHEST_BIGINT) }]
}

/** Returns the ranges of UUIDs that end with each of `ends`, in order, and with the highest one. */
function rangesBetween(by: SlicedBy, ends: readonly string[]): AuditSlice[] {
  const starts = [LOWEST_UUID, ...ends.map(uuid => moved(uuid, 1n))]
  return starts.map((from, index) => ({ by, from, to: ends[index] ?? HIGHEST_UUID }))
}

function moved(uuid: string, by: bigint): string {
  const digits = (BigInt(`0x${uuid.replaceAll('-', '')}`) + by).toString(16).padStart(32, '0')
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
