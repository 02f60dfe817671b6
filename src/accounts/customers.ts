import { randomUUID } from 'node:crypto'
import { bumpControlVersion } from '../db/control-version.ts'
import type { Sql } from '../db/pool.ts'

export interface Customer {
  readonly customerId: string
  readonly email: string
  readonly accountTier: string
  readonly createdAt: Date
  readonly disabledAt: Date | null
}

const COLUMNS = `customer_id AS "customerId", email, account_tier AS "accountTier", created_at AS "createdAt", disabled_at AS "disabledAt"`

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

/** Returns all customers, oldest first. */
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
