import { randomUUID } from 'node:crypto'
import { bumpControlVersion } from '../../base/db/control-version.ts'
import type { Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { InstallationRole, MemberRole } from '../../base/domain/member-role.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'

/** A person, apart from the password. */
export interface Person {
  readonly personId: string
  readonly email: string
  readonly name: string
  /** Null: no rights on the installation. */
  readonly installationRole: InstallationRole | null
}

export interface Membership {
  readonly customerId: string
  /** The billing address of the customer. */
  readonly customerEmail: string
  readonly role: MemberRole
}

const COLUMNS = `person_id AS "personId", email, name, installation_role AS "installationRole"`

export async function findPerson(sql: Sql, email: string): Promise<Person | undefined> {
  const { rows } = await sql.query<Person>(`SELECT ${COLUMNS} FROM person WHERE lower(email) = lower($1)`, [email])
  return rows[0]
}

/** Returns the operators and auditors that are not blocked, oldest first. */
export async function listOperators(sql: Sql): Promise<Person[]> {
  const { rows } = await sql.query<Person>(
    `SELECT ${COLUMNS} FROM person WHERE installation_role IS NOT NULL AND disabled_at IS NULL ORDER BY created_at, person_id`,
  )
  return rows
}

export async function isBlocked(sql: Sql, personId: string): Promise<boolean> {
  const { rowCount } = await sql.query('SELECT FROM person WHERE person_id = $1 AND disabled_at IS NOT NULL', [
    personId,
  ])
  return rowCount === 1
}

/** SQL: whether the person `p` has an authenticator app or a passkey. */
export const HAS_FACTOR =
  '(p.totp_secret IS NOT NULL OR EXISTS (SELECT FROM person_passkey k WHERE k.person_id = p.person_id))'

/** A person with what signing in needs. */
export interface SigningPerson extends Person {
  /** Null: the person has no password. */
  readonly passwordHash: string | null
  readonly hasTotp: boolean
  readonly hasPasskey: boolean
  /** Whether the person proved to own the address. */
  readonly isVerified: boolean
}

const SIGNING_COLUMNS = `${COLUMNS}, password_hash AS "passwordHash", totp_secret IS NOT NULL AS "hasTotp",
  EXISTS (SELECT FROM person_passkey k WHERE k.person_id = person.person_id) AS "hasPasskey",
  email_verified_at IS NOT NULL AS "isVerified"`

/** Returns the person with this e-mail (ignoring case), unless disabled. */
export async function findSigningPerson(sql: Sql, email: string): Promise<SigningPerson | undefined> {
  const { rows } = await sql.query<SigningPerson>(
    `SELECT ${SIGNING_COLUMNS} FROM person WHERE lower(email) = lower($1) AND disabled_at IS NULL`,
    [email],
  )
  return rows[0]
}

/** Returns the person with this id, unless disabled. */
export async function findSigningPersonById(sql: Sql, personId: string): Promise<SigningPerson | undefined> {
  const { rows } = await sql.query<SigningPerson>(
    `SELECT ${SIGNING_COLUMNS} FROM person WHERE person_id = $1 AND disabled_at IS NULL`,
    [personId],
  )
  return rows[0]
}

/** Adds a person. Returns undefined when another person has that e-mail, ignoring case. */
export async function addPerson(
  sql: Sql,
  { email, name = '', installationRole = null }: Partial<Omit<Person, 'personId'>> & { readonly email: string },
): Promise<Person | undefined> {
  const { rows } = await sql.query<Person>(
    `INSERT INTO person (person_id, email, name, installation_role) VALUES ($1, $2, $3, $4)
     ON CONFLICT ((lower(email))) DO NOTHING RETURNING ${COLUMNS}`,
    [randomUUID(), email, name, installationRole],
  )
  return rows[0]
}

/**
 * Locks a person until the transaction ends. Take it before sessions, factors or identities of the person change, so
 * that what ends them also ends those that are being made.
 */
export async function lockPerson(sql: Sql, personId: string): Promise<void> {
  await sql.query('SELECT FROM person WHERE person_id = $1 FOR NO KEY UPDATE', [personId])
}

/**
 * Gives a person a password, and takes back mailed links that could replace it. End the person's sessions in the same
 * transaction.
 */
export async function setPassword(sql: Sql, personId: string, passwordHash: string): Promise<void> {
  await sql.query('UPDATE person SET password_hash = $2 WHERE person_id = $1', [personId, passwordHash])
  await sql.query("DELETE FROM person_token WHERE person_id = $1 AND purpose = 'reset'", [personId])
}

/** Notes that a new person proved to own the address. `ProveAddress` is for persons who were here before. */
export async function noteVerified(sql: Sql, personId: string, nowMs: number): Promise<void> {
  await sql.query('UPDATE person SET email_verified_at = coalesce(email_verified_at, $2) WHERE person_id = $1', [
    personId,
    new Date(nowMs),
  ])
}

/**
 * Makes a person a member of a customer, or changes the role of a member. An owner stays one: there may be no other.
 */
export async function setMember(
  sql: Sql,
  { customerId, personId, role }: { customerId: string; personId: string; role: MemberRole },
): Promise<void> {
  await sql.query(
    `INSERT INTO membership (customer_id, person_id, role) VALUES ($1, $2, $3)
     ON CONFLICT (customer_id, person_id) DO UPDATE SET role = EXCLUDED.role WHERE membership.role <> 'owner'`,
    [customerId, personId, role],
  )
}

/** Returns the customers that a person is a member of, oldest first. */
export async function listMemberships(sql: Sql, personId: string): Promise<Membership[]> {
  const { rows } = await sql.query<Membership>(
    `SELECT customer_id AS "customerId", email AS "customerEmail", role
       FROM membership JOIN customer USING (customer_id)
      WHERE person_id = $1 AND deleted_at IS NULL ORDER BY membership.created_at, customer_id`,
    [personId],
  )
  return rows
}

/**
 * Gives a person another e-mail address, and also the customer of the same address. Throws `invalid_value` when another
 * person or customer has it.
 */
export async function changeEmail(sql: Sql, personId: string, email: string): Promise<void> {
  const { previous, isTaken } = await queryRow<{ previous: string; isTaken: boolean }>(
    sql,
    `SELECT email AS previous,
            EXISTS (SELECT FROM person other WHERE lower(other.email) = lower($2) AND other.person_id <> $1)
            OR EXISTS (SELECT FROM customer c WHERE lower(c.email) = lower($2) AND lower(c.email) <> lower(person.email)) AS "isTaken"
       FROM person WHERE person_id = $1`,
    [personId, email],
  )
  if (isTaken) {
    throw new ApiError('invalid_value', {
      message: sayRefusal('refusal.email_taken'),
      param: 'email',
    })
  }
  await sql.query('UPDATE person SET email = $2, email_verified_at = NULL WHERE person_id = $1 AND email <> $2', [
    personId,
    email,
  ])
  await sql.query('UPDATE customer SET email = $2 WHERE lower(email) = lower($1) AND email <> $2', [previous, email])
  await bumpControlVersion(sql, 'access')
}
