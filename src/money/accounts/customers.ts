import { randomUUID } from 'node:crypto'
import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { Nanos } from '../../base/domain/money.ts'
import { erasePeople } from '../../identity/people/erase-people.ts'
import { openAccount } from '../ledger/accounts/open-account.ts'

export interface Customer {
  readonly customerId: string
  readonly email: string
  readonly accountTier: string
  readonly createdAt: Date
  readonly disabledAt: Date | null
  readonly deletedAt: Date | null
}

const COLUMNS = `customer_id AS "customerId", email, account_tier AS "accountTier", created_at AS "createdAt",
  disabled_at AS "disabledAt", deleted_at AS "deletedAt"`

/**
 * Adds a customer without a money account: open one in the same transaction. The e-mail must pass `isEmail`.
 * Returns undefined when another customer has that e-mail, ignoring case.
 */
export async function addCustomer(
  sql: Sql,
  { email, accountTier }: { email: string; accountTier: string },
): Promise<Customer | undefined> {
  const { rows } = await sql.query<Customer>(
    `INSERT INTO customer (customer_id, email, account_tier) VALUES ($1, $2, $3)
     ON CONFLICT ((lower(email))) DO NOTHING RETURNING ${COLUMNS}`,
    [randomUUID(), email, accountTier],
  )
  return rows[0]
}

/** Finds the customer with this e-mail (ignoring case) or id. */
export async function findCustomer(sql: Sql, emailOrId: string): Promise<Customer | undefined> {
  const match = emailOrId.includes('@') ? 'lower(email) = lower($1)' : 'customer_id::text = lower($1)'
  const { rows } = await sql.query<Customer>(`SELECT ${COLUMNS} FROM customer WHERE ${match}`, [emailOrId])
  return rows[0]
}

/** Returns all customers, oldest first, with the deleted ones. */
export async function listCustomers(sql: Sql): Promise<Customer[]> {
  const { rows } = await sql.query<Customer>(`SELECT ${COLUMNS} FROM customer ORDER BY created_at, customer_id`)
  return rows
}

/**
 * Gives a customer the limits of another account tier, on all nodes within two seconds. Run it in a
 * transaction.
 */
export async function setAccountTier(sql: Sql, customerId: string, accountTier: string): Promise<void> {
  await sql.query('UPDATE customer SET account_tier = $2 WHERE customer_id = $1', [customerId, accountTier])
  await bumpControlVersion(sql, 'access')
}

/**
 * Moves a customer to another account tier if its tier is still `from`. Returns whether the tier changed. Run it in
 * a transaction.
 */
export async function promoteAccountTier(
  sql: Sql,
  { customerId, from, to }: { customerId: string; from: string; to: string },
): Promise<boolean> {
  const { rowCount } = await sql.query(
    'UPDATE customer SET account_tier = $3 WHERE customer_id = $1 AND account_tier = $2',
    [customerId, from, to],
  )
  if (rowCount === 0) return false
  await bumpControlVersion(sql, 'access')
  return true
}

/** Limits of a customer that replace those of its account tier. Null: the tier's limit applies. */
export interface OwnLimits {
  readonly requestsPerMinute: number | null
  readonly requestsPerDay: number | null
  readonly dailySpendCapNanos: Nanos | null
}

export async function readOwnLimits(sql: Sql, customerId: string): Promise<OwnLimits> {
  return queryRow<OwnLimits>(
    sql,
    `SELECT requests_per_minute AS "requestsPerMinute", requests_per_day AS "requestsPerDay",
       daily_spend_cap_nanos AS "dailySpendCapNanos"
     FROM customer WHERE customer_id = $1`,
    [customerId],
  )
}

/** Replaces the customer's own limits, on all nodes within two seconds. Run it in a transaction. */
export async function setOwnLimits(sql: Sql, customerId: string, limits: OwnLimits): Promise<void> {
  await sql.query(
    'UPDATE customer SET requests_per_minute = $2, requests_per_day = $3, daily_spend_cap_nanos = $4 WHERE customer_id = $1',
    [customerId, limits.requestsPerMinute, limits.requestsPerDay, limits.dailySpendCapNanos],
  )
  await bumpControlVersion(sql, 'access')
}

/**
 * Makes all nodes refuse the keys of a customer within two seconds, or accept them again. Running requests finish.
 * Run it in a transaction. Returns false if nothing changed.
 */
export async function setDisabled(sql: Sql, customerId: string, disabled: boolean): Promise<boolean> {
  const { rowCount } = await sql.query(
    `UPDATE customer SET disabled_at = CASE WHEN $2 THEN now() END
     WHERE customer_id = $1 AND deleted_at IS NULL AND (disabled_at IS NOT NULL) <> $2`,
    [customerId, disabled],
  )
  if (rowCount === 0) return false
  await bumpControlVersion(sql, 'access')
  return true
}

/**
 * Disables a customer for good and erases its e-mail address, and the accounts of people who were members of it alone and of no
 * hoster. The balance, the ledger and the usage stay. Revoke the keys in the same transaction. Returns false if an operator is a
 * member: then nothing changed.
 */
export async function deleteCustomer(sql: Sql, customerId: string): Promise<boolean> {
  const { rowCount } = await sql.query(
    `UPDATE customer SET email = 'deleted-' || customer_id, deleted_at = now(), disabled_at = coalesce(disabled_at, now())
     WHERE customer_id = $1 AND NOT EXISTS (
       SELECT FROM membership JOIN person USING (person_id)
        WHERE membership.customer_id = $1 AND installation_role = 'operator')`,
    [customerId],
  )
  if (rowCount === 0) return false
  await sql.query('DELETE FROM person_token WHERE customer_id = $1', [customerId])
  const { rows } = await sql.query<{ person_id: string }>(
    'DELETE FROM membership WHERE customer_id = $1 RETURNING person_id',
    [customerId],
  )
  const { rows: leaving } = await sql.query<{ person_id: string }>(
    `SELECT person_id FROM person WHERE person_id = ANY ($1) AND installation_role IS NULL
        AND NOT EXISTS (SELECT FROM membership WHERE membership.person_id = person.person_id)
        AND NOT EXISTS (SELECT FROM hoster_member WHERE hoster_member.person_id = person.person_id) FOR UPDATE`,
    [rows.map(({ person_id }) => person_id)],
  )
  await erasePeople(
    sql,
    leaving.map(({ person_id }) => person_id),
  )
  return true
}

/**
 * Returns the e-mail of a stored customer; null for a deleted customer, whose address was replaced by `deleted-<id>`.
 */
export function emailOrNull(email: string): string | null {
  return email.includes('@') ? email : null
}

/**
 * Creates a customer with a money account and the signup credit. Run it in a transaction.
 * Returns undefined when the e-mail is taken.
 *
 * @param open opens the account; the gateway may not open one without an operator
 */
export async function createCustomer(
  sql: Sql,
  { signup }: { readonly signup: { readonly tier: string; readonly creditNanos: Nanos } },
  { email, accountTier = signup.tier }: { email: string; accountTier?: string | undefined },
  open: (customerId: string, creditNanos: Nanos) => Promise<unknown> = (id, nanos) => openAccount(sql, id, nanos),
): Promise<Customer | undefined> {
  const customer = await addCustomer(sql, { email, accountTier })
  if (customer) await open(customer.customerId, signup.creditNanos)
  return customer
}

/**
 * Returns the customer with this e-mail for a person who has proved to own it: one that the operator made and that has
 * no member, or a new one. Returns undefined if the customer has members. Run it in a transaction.
 *
 * @param open opens the money account of a new customer
 */
export async function claimCustomer(
  sql: Sql,
  { signup }: { readonly signup: { readonly tier: string; readonly creditNanos: Nanos } },
  email: string,
  open: (customerId: string, creditNanos: Nanos) => Promise<void>,
): Promise<string | undefined> {
  const { rows } = await sql.query<{ customerId: string; hasMembers: boolean }>(
    `SELECT customer_id AS "customerId",
            EXISTS (SELECT FROM membership m WHERE m.customer_id = customer.customer_id) AS "hasMembers"
       FROM customer WHERE lower(email) = lower($1) AND deleted_at IS NULL FOR NO KEY UPDATE`,
    [email],
  )
  const [found] = rows
  if (found !== undefined) return found.hasMembers ? undefined : found.customerId
  return (await createCustomer(sql, { signup }, { email }, open))?.customerId
}
