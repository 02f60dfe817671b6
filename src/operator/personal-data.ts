import type { Sql } from '../base/db/pool.ts'
import { queryRow } from '../base/db/query-row.ts'

/** A table with what is kept of a person or of a customer. */
export interface PersonalPlace {
  readonly table: string
  /** Columns with the id of the person or the customer. */
  readonly ids: readonly string[]
  /** Columns with an e-mail address. */
  readonly emails?: readonly string[]
  /** Selects the rows in the place of `ids`: `$1` is the id. */
  readonly where?: string
  /** Columns that are no data about anybody, but secrets: hashes and encrypted keys. */
  readonly secrets?: readonly string[]
  /** Columns that are not about the subject: operators who decided, what servers cost the operator, and what they answered. */
  readonly foreign?: readonly string[]
  /** Columns about somebody else in the rows of which this SQL is not true; `$1` is the id. */
  readonly others?: { readonly columns: readonly string[]; readonly unless: string }
}

const IS_TO_PERSON = 'lower(email) = (SELECT lower(p.email) FROM person p WHERE p.person_id = $1)'

/** What is kept of a person. docs/data-protection.md says why, and how long. */
export const placesOfPerson: readonly PersonalPlace[] = [
  { table: 'person', ids: ['person_id'], emails: ['email'], secrets: ['password_hash', 'totp_secret', 'totp_pending'] },
  { table: 'person_identity', ids: ['person_id'], emails: ['email'] },
  { table: 'group_role', ids: ['person_id'] },
  { table: 'person_network', ids: ['person_id'] },
  { table: 'person_device', ids: ['person_id'], secrets: ['device_hash'] },
  { table: 'person_passkey', ids: ['person_id'] },
  { table: 'person_recovery_code', ids: ['person_id'], secrets: ['code_hash'] },
  { table: 'person_session', ids: ['person_id'], secrets: ['token_hash', 'previous_token_hash'] },
  {
    table: 'person_token',
    ids: ['person_id', 'made_by'],
    emails: ['email'],
    where: `$1 IN (person_id, made_by) OR ${IS_TO_PERSON}`,
    secrets: ['token_hash', 'detail'],
    others: { columns: ['email'], unless: `person_id = $1 OR ${IS_TO_PERSON}` },
  },
  { table: 'membership', ids: ['person_id'] },
  { table: 'member_limit', ids: ['person_id'] },
  { table: 'member_spend', ids: ['person_id'] },
  { table: 'hoster_member', ids: ['person_id'] },
  { table: 'api_key', ids: ['person_id', 'former_person_id'], secrets: ['key_hash', 'former_key_hash'] },
  { table: 'hoster_key', ids: ['person_id'], secrets: ['key_hash'] },
  { table: 'operator_key', ids: ['person_id'], secrets: ['key_hash'] },
  { table: 'role_change', ids: ['person_id', 'requested_by', 'decided_by'] },
  { table: 'payment', ids: ['person_id', 'confirmed_by'] },
  { table: 'auto_top_up', ids: ['consented_by'] },
  { table: 'voucher', ids: ['made_by'], secrets: ['code_hash', 'mac'] },
  { table: 'grant_request', ids: ['requested_by', 'decided_by'] },
  { table: 'clawback', ids: ['made_by'] },
  { table: 'payout_batch', ids: ['prepared_by', 'approved_by'] },
  {
    table: 'payout_change',
    ids: ['requested_by', 'ended_by', 'mailed_to'],
    where: '$1 IN (requested_by, ended_by) OR $1 = ANY (mailed_to)',
  },
  { table: 'promotion_review', ids: ['decided_by'] },
  { table: 'hoster_appeal', ids: ['person_id', 'answered_by'] },
  { table: 'hoster_model', ids: ['person_id'] },
  { table: 'hoster_state_change', ids: ['person_id'] },
  { table: 'audit_entry', ids: ['person_id'], secrets: ['hash', 'address_salt', 'address_proof'] },
]

/** What is kept of a customer. */
export const placesOfCustomer: readonly PersonalPlace[] = [
  { table: 'customer', ids: ['customer_id'], emails: ['email'] },
  { table: 'balance', ids: ['customer_id'] },
  { table: 'day_spend', ids: ['customer_id'] },
  { table: 'key_spend', ids: ['customer_id'] },
  { table: 'member_limit', ids: ['customer_id'] },
  { table: 'member_spend', ids: ['customer_id'] },
  { table: 'membership', ids: ['customer_id'] },
  { table: 'person_token', ids: ['customer_id'], secrets: ['token_hash', 'detail'] },
  { table: 'api_key', ids: ['customer_id'], secrets: ['key_hash', 'former_key_hash'] },
  { table: 'alert_rule', ids: ['customer_id'], secrets: ['secret_sealed'] },
  { table: 'alert', ids: [], where: 'rule_id IN (SELECT rule_id FROM alert_rule WHERE customer_id = $1)' },
  { table: 'payment_account', ids: ['customer_id'] },
  { table: 'payment_method', ids: ['customer_id'] },
  { table: 'auto_top_up', ids: ['customer_id'] },
  { table: 'payment', ids: ['customer_id'], foreign: ['confirmed_by'] },
  { table: 'payment_reversal', ids: ['customer_id'] },
  { table: 'grant_request', ids: ['customer_id'], foreign: ['requested_by', 'decided_by'] },
  { table: 'credit_taken', ids: ['customer_id'] },
  { table: 'refund', ids: ['customer_id'] },
  { table: 'hoster_account', ids: ['customer_id'] },
  { table: 'payout_change', ids: ['customer_id'], foreign: ['requested_by', 'ended_by', 'mailed_to'] },
  { table: 'promotion_share', ids: ['customer_id'] },
  { table: 'promotion_used_up', ids: ['customer_id'] },
  { table: 'house_customer', ids: ['customer_id'] },
  { table: 'shared_request_spend', ids: ['customer_id'] },
  { table: 'server_error', ids: ['customer_id'], foreign: ['text'] },
  { table: 'cell_move', ids: ['customer_id'] },
  { table: 'idempotency', ids: ['customer_id'], secrets: ['body_hash', 'answer_sealed'] },
  { table: 'usage_hour', ids: ['customer_id'] },
  { table: 'usage_day', ids: ['customer_id'], foreign: ['upstream_cost_nanos', 'costed_nanos'] },
  { table: 'usage_key_day', ids: ['customer_id'] },
  { table: 'usage_label_day', ids: ['customer_id'] },
  { table: 'usage_closing', ids: ['customer_id'], foreign: ['upstream_cost_nanos', 'costed_nanos'] },
  { table: 'platform_customer_day', ids: ['customer_id'] },
  { table: 'ledger_entry', ids: ['account_id'] },
  {
    table: 'audit_entry',
    ids: ['customer_id'],
    secrets: ['hash', 'address_salt', 'address_proof'],
    // Of operators and auditors who looked at the customer or changed it.
    others: {
      columns: ['person_id', 'address'],
      unless: 'EXISTS (SELECT FROM membership m WHERE m.customer_id = $1 AND m.person_id = t.person_id)',
    },
  },
  // Its texts are encrypted; GET /v1/usage/requests/{id}/content shows them.
  { table: 'request_content', ids: ['customer_id'], secrets: ['sealed'] },
  { table: 'usage_event', ids: ['customer_id'], foreign: ['upstream_cost_nanos'] },
]

/**
 * Yields the text of a JSON document: `{"about": ..., "tables": {"person": [...], ...}}`. Amounts are exact numbers of nano-USD.
 *
 * @param sql a transaction
 */
export async function* personalData(
  sql: Sql,
  about: Readonly<Record<string, string | null>>,
  places: readonly PersonalPlace[],
  id: string,
): AsyncGenerator<string> {
  yield `{"about":${JSON.stringify(about)},"tables":{`
  for (const [at, place] of places.entries()) {
    yield `${at === 0 ? '' : ','}\n"${place.table}":[`
    let isFirst = true
    for await (const rows of rowsOf(sql, place, id)) {
      yield `${isFirst ? '' : ','}\n${rows.join(',\n')}`
      isFirst = false
    }
    yield ']'
  }
  yield '}}\n'
}

/** Yields the rows in lists of at most 500, from a cursor: a customer may have millions of requests. */
async function* rowsOf(sql: Sql, place: PersonalPlace, id: string): AsyncGenerator<string[]> {
  const { table, ids, where, secrets = [], foreign = [], others } = place
  // The roles of the gateway may not read secrets, so the statement names the other columns.
  const { columns } = await queryRow<{ columns: string }>(
    sql,
    `SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS columns FROM pg_attribute
      WHERE attrelid = $1::regclass AND attnum > 0 AND NOT attisdropped AND attname <> ALL ($2)`,
    [table, [...secrets, ...foreign]],
  )
  const ofSubject = where ?? ids.map(column => `${column} = $1`).join(' OR ')
  const shown =
    others === undefined
      ? 'to_jsonb(t)'
      : `CASE WHEN ${others.unless} THEN to_jsonb(t) ELSE to_jsonb(t) - $2::text[] END`
  await sql.query(
    `DECLARE personal NO SCROLL CURSOR FOR
      SELECT (${shown})::text AS row FROM (SELECT ${columns} FROM ${table} WHERE ${ofSubject}) AS t`,
    others === undefined ? [id] : [id, others.columns],
  )
  for (;;) {
    const { rows } = await sql.query<{ row: string }>('FETCH 500 FROM personal')
    if (rows.length === 0) break
    yield rows.map(({ row }) => row)
  }
  await sql.query('CLOSE personal')
}
