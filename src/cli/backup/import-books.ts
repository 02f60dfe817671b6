import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { createGunzip } from 'node:zlib'
import type { Sql } from '../../base/db/pool.ts'
import { valueAt } from '../../base/runtime/collections.ts'
import { ownCommand } from '../../base/runtime/own-command.ts'
import { type AccountBalance, bookOpeningBalances } from '../../money/ledger/accounts/opening-balances.ts'
import { EXPORT_FORMAT, type ExportDescription, importedTables } from './export-books.ts'

/** What an import needs of an export. */
export interface ReadExport {
  readonly description: ExportDescription
  readonly balances: readonly AccountBalance[]
  /** For each table the JSON text of its rows. */
  readonly rows: ReadonlyMap<string, readonly string[]>
}

/** Reads an export whole. Throws an Error for the operator when it is not complete. */
export async function readExport(path: string): Promise<ReadExport> {
  const input = createReadStream(path).pipe(createGunzip())
  const rows = new Map<string, string[]>(importedTables.map(table => [table, []]))
  const balances: AccountBalance[] = []
  let description: ExportDescription | undefined
  let read = 0
  let end: number | undefined
  try {
    for await (const line of createInterface({ input, crlfDelay: Number.POSITIVE_INFINITY })) {
      const [, table, row = ''] = /^\{"table":"([a-z_]+)","row":(.*)\}$/s.exec(line) ?? []
      if (table !== undefined) {
        read++
        rows.get(table)?.push(row)
        continue
      }
      const other = JSON.parse(line)
      if (other.account !== undefined) {
        const { kind, account, nanos } = other.account
        balances.push({ kind, account, amountNanos: BigInt(nanos) })
      } else if (other.end !== undefined) end = other.end
      else description = other
    }
  } catch (error) {
    throw new Error(`${path} is not a complete export: ${(error as Error).message}`, { cause: error })
  }
  if (description?.format !== EXPORT_FORMAT || end !== read)
    throw new Error(`${path} is not a complete export of this version. Make it again with ${ownCommand('export')}.`)
  return { description, balances, rows }
}

export interface ImportedBooks {
  /** False when the same export was imported before: then nothing was changed. */
  readonly isNew: boolean
  readonly customers: number
  readonly keys: number
  readonly hosters: number
}

/**
 * Brings the customers, people, keys, hosters and balances of an export into a database without customers. The balances
 * are one transaction of the ledger. Run it in a transaction. Throws an Error for the operator.
 */
export async function importBooks(sql: Sql, { description, balances, rows }: ReadExport): Promise<ImportedBooks> {
  const counts = {
    customers: valueAt(rows, 'customer').length,
    keys: valueAt(rows, 'api_key').length,
    hosters: valueAt(rows, 'hoster').length,
  }
  const { rows: before } = await sql.query("SELECT FROM ledger_tx WHERE kind = 'opening_balance' AND ref = $1", [
    description.export_id,
  ])
  if (before.length > 0) return { isNew: false, ...counts }
  if ((await sql.query('SELECT FROM customer LIMIT 1')).rows.length > 0)
    throw new Error('This database has customers already. Import into a new data directory or an empty database.')
  refuseOpenMoney(balances)
  for (const [table, statement] of Object.entries(inserts)) {
    await sql.query(
      statement,
      [`[${valueAt(rows, table).join()}]`, `[${valueAt(rows, 'key_spend').join()}]`].slice(
        0,
        table === 'api_key' ? 2 : 1,
      ),
    )
  }
  await bookOpeningBalances(sql, {
    ref: description.export_id,
    reason: `opening balance, exported ${description.made_at.slice(0, 10)}`,
    balances,
  })
  // The first start creates an operator and a customer only if this is missing.
  await sql.query("INSERT INTO installation (name, value) VALUES ('first_run_at', $1) ON CONFLICT DO NOTHING", [
    new Date().toISOString(),
  ])
  return { isNew: true, ...counts }
}

/** Debts and transfers on the way consist of more than a balance. No version that needs an export has any. */
function refuseOpenMoney(balances: readonly AccountBalance[]): void {
  const open = balances.find(
    ({ kind, amountNanos }) => ['customer_debt', 'payout_clearing'].includes(kind) && amountNanos !== 0n,
  )
  if (open !== undefined) throw new Error(`The export has open money in ${open.kind}, which cannot be imported.`)
}

/**
 * One statement for each table: $1 is the rows as a JSON array. Columns that an early version does not have are NULL.
 */
const inserts: Readonly<Record<Exclude<(typeof importedTables)[number], 'key_spend'>, string>> = {
  customer: `
    INSERT INTO customer (customer_id, email, account_tier, requests_per_minute, requests_per_day, daily_spend_cap_nanos, disabled_at, deleted_at, created_at)
    SELECT customer_id, email, account_tier, requests_per_minute, requests_per_day, daily_spend_cap_nanos, disabled_at, deleted_at, created_at
    FROM jsonb_populate_recordset(NULL::customer, $1::jsonb)`,
  // As 0011 does. People set their password with a link.
  app_user: `
    WITH logins AS (
      SELECT * FROM jsonb_to_recordset($1::jsonb) AS t(user_id uuid, email text, role text, customer_id uuid, created_at timestamptz)
    ), people AS (
      INSERT INTO person (person_id, email, installation_role, created_at)
      SELECT user_id, email, CASE role WHEN 'operator' THEN 'operator' END, created_at FROM logins
    )
    INSERT INTO membership (customer_id, person_id, role, created_at)
    SELECT customer_id, user_id, 'owner', created_at FROM logins WHERE customer_id IS NOT NULL`,
  // What a key without resets has spent lowers its limit, since no usage row proves it here. A limit that resets starts
  // again.
  api_key: `
    INSERT INTO api_key (key_id, customer_id, name, key_hash, hint, spend_limit_nanos, highest_limit_nanos, limit_reset, allowed_models, scopes,
      created_at, expires_at, revoked_at, paused_at, paused_by_operator, former_key_hash, former_hint, former_expires_at)
    SELECT k.key_id, k.customer_id, k.name, k.key_hash, k.hint, l.left_nanos, l.left_nanos, coalesce(k.limit_reset, 'none'), k.allowed_models,
      coalesce(k.scopes, '{}'), k.created_at, k.expires_at, k.revoked_at, k.paused_at, coalesce(k.paused_by_operator, false), k.former_key_hash, k.former_hint, k.former_expires_at
    FROM jsonb_populate_recordset(NULL::api_key, $1::jsonb) AS k
    LEFT JOIN jsonb_populate_recordset(NULL::key_spend, $2::jsonb) AS s ON s.key_id = k.key_id AND k.limit_reset = 'none',
      LATERAL (SELECT CASE WHEN k.spend_limit_nanos IS NOT NULL THEN greatest(k.spend_limit_nanos - coalesce(s.spent_nanos, 0), 0) END) AS l(left_nanos)`,
  hoster: `
    INSERT INTO hoster (hoster_id, name, state, trust_score, trust_override, share_bps, created_at, active_since)
    SELECT hoster_id, name, state, trust_score, nullif(trust_score, 0), share_bps, created_at, CASE state WHEN 'active' THEN created_at END
    FROM jsonb_populate_recordset(NULL::hoster, $1::jsonb)`,
  hoster_endpoint: `
    INSERT INTO hoster_endpoint (endpoint_id, hoster_id, base_url, key_sealed, created_at)
    SELECT endpoint_id, hoster_id, base_url, key_sealed, created_at FROM jsonb_populate_recordset(NULL::hoster_endpoint, $1::jsonb)`,
  hoster_price: `
    WITH price AS (SELECT * FROM jsonb_populate_recordset(NULL::hoster_price, $1::jsonb)),
    approved AS (
      INSERT INTO hoster_model (model_id, state, reason)
      SELECT DISTINCT model_id, 'approved', 'It was offered in the imported installation.' FROM price WHERE valid_until IS NULL
    )
    INSERT INTO hoster_price (endpoint_id, model_id, version, upstream_model, input_pico_per_token, output_pico_per_token, context_tokens,
      max_output_tokens, features, valid_from, valid_until)
    SELECT endpoint_id, model_id, version, upstream_model, input_pico_per_token, output_pico_per_token, context_tokens, max_output_tokens,
      coalesce(features, '{}'), valid_from, valid_until
    FROM price`,
}
