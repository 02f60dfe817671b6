import { open, unlink } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { readAccountBalances } from '../../money/ledger/accounts/opening-balances.ts'

/** The version of the form. An import reads no other one. */
export const EXPORT_FORMAT = 1

/** The first line of an export. */
export interface ExportDescription {
  readonly format: typeof EXPORT_FORMAT
  /** Names the export, so that it is imported once. */
  readonly export_id: string
  readonly made_at: string
  /** Version of the Switchyard that made it. */
  readonly switchyard: string
  /** The newest migration of the exported database. */
  readonly migration: string
  /** Identifies the master key that encrypted the keys of hosters; null when no server has started on the database. */
  readonly master_key_mark: string | null
}

/** The tables that an import reads, in an order that satisfies their references. */
export const importedTables = [
  'customer',
  'app_user',
  'api_key',
  'key_spend',
  'hoster',
  'hoster_endpoint',
  'hoster_price',
] as const

/** Kept for the operator: an import reads their sums only. */
const historyTables = ['ledger_tx', 'ledger_entry', 'refund', 'usage_event'] as const

export interface ExportedBooks {
  readonly customers: number
  readonly rows: number
  /** What the customers own together. */
  readonly creditNanos: Nanos
  /** Charges that the database did not have yet. */
  readonly unsettled: number
}

/**
 * Writes the books of a database of any earlier version to `path`, which must not exist: gzipped JSON, one line for the
 * description, each account and each row. `sql` is a transaction with REPEATABLE READ, so that all lines are of the same
 * moment. When it fails, there is no file. Its statements fit the first schema, too: rows are written with the columns that they have.
 */
export async function exportBooks(
  sql: Sql,
  path: string,
  journalRoot: string,
  description: ExportDescription,
): Promise<ExportedBooks> {
  const { balances, unsettled } = await readAccountBalances(sql, journalRoot)
  let rows = 0
  const lines = async function* () {
    yield `${JSON.stringify(description)}\n`
    for (const { kind, account, amountNanos } of balances)
      yield `{"account":${JSON.stringify({ kind, account, nanos: String(amountNanos) })}}\n`
    for (const table of [...importedTables, ...historyTables]) {
      for await (const row of rowsOf(sql, table)) {
        rows++
        yield `{"table":"${table}","row":${row}}\n`
      }
    }
    yield `{"end":${rows}}\n`
  }
  const file = await open(path, 'wx', 0o600)
  try {
    await pipeline(Readable.from(lines()), createGzip(), file.createWriteStream())
  } catch (error) {
    // Otherwise the next try would find that the file exists.
    await unlink(path)
    throw error
  }
  const ofCustomers = balances.filter(({ kind }) => kind === 'customer')
  return {
    customers: ofCustomers.length,
    rows,
    creditNanos: ofCustomers.reduce((sum, { amountNanos }) => sum + amountNanos, 0n),
    unsettled: unsettled.length,
  }
}

/**
 * The rows of a table as JSON text, because a number of JavaScript cannot hold every bigint. Nothing when there is no
 * such table.
 */
async function* rowsOf(sql: Sql, table: string): AsyncGenerator<string> {
  const { found } = await queryRow<{ found: boolean }>(sql, 'SELECT to_regclass($1) IS NOT NULL AS found', [table])
  if (!found) return
  await sql.query(`DECLARE exported NO SCROLL CURSOR FOR SELECT to_jsonb(t)::text AS row FROM ${table} AS t`)
  for (;;) {
    const { rows } = await sql.query<{ row: string }>('FETCH 1000 FROM exported')
    if (rows.length === 0) break
    for (const { row } of rows) yield row
  }
  await sql.query('CLOSE exported')
}
