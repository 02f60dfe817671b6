import type { Sql } from '../db/pool.ts'
import type { MemberRole } from '../domain/member-role.ts'
import { hashSecretToken, mintSecretToken } from './secret-token.ts'

// A link works once. Its secret is the fragment of the address, which browsers do not send, so no log of a proxy has it.

const HOUR_MS = 3_600_000
const WELCOME_MS = 24 * HOUR_MS
const INVITE_MS = 7 * 24 * HOUR_MS

/** Makes the link with which an operator sets a password, and takes back the earlier ones. Returns its path. */
export async function makeWelcomeLink(sql: Sql, personId: string, nowMs: number): Promise<string> {
  await sql.query("DELETE FROM person_token WHERE purpose = 'welcome' AND person_id = $1", [personId])
  const { token, hash } = mintSecretToken()
  await sql.query(
    "INSERT INTO person_token (token_hash, purpose, person_id, expires_at) VALUES ($1, 'welcome', $2, $3)",
    [hash, personId, new Date(nowMs + WELCOME_MS)],
  )
  return `/welcome#${token}`
}

export interface Invitation {
  readonly customerId: string
  readonly email: string
  readonly role: MemberRole
  /** The member who invites; null: the command line. */
  readonly madeBy?: string | null
  /** Whether the link is mailed: then its use proves the address. */
  readonly isMailed?: boolean
}

/**
 * Makes the link with which a person joins a customer, and takes back earlier invitations of that e-mail to it. Returns
 * its path.
 */
export async function makeInviteLink(
  sql: Sql,
  { customerId, email, role, madeBy = null, isMailed = false }: Invitation,
  nowMs: number,
): Promise<string> {
  await sql.query(
    "DELETE FROM person_token WHERE purpose = 'invite' AND customer_id = $1 AND lower(email) = lower($2)",
    [customerId, email],
  )
  const { token, hash } = mintSecretToken()
  await sql.query(
    `INSERT INTO person_token (token_hash, purpose, customer_id, email, role, made_by, is_mailed, expires_at)
     VALUES ($1, 'invite', $2, $3, $4, $5, $6, $7)`,
    [hash, customerId, email, role, madeBy, isMailed, new Date(nowMs + INVITE_MS)],
  )
  return `/invite#${token}`
}

const MAILED_MS = { sign_up: 24 * HOUR_MS, reset: HOUR_MS, email: 24 * HOUR_MS } as const
const MAILED_PATH = { sign_up: '/verify', reset: '/reset', email: '/confirm-email' } as const

/** A link that is mailed to prove an address. `sign_up` has no person yet. */
export interface MailedLink {
  readonly purpose: keyof typeof MAILED_MS
  readonly personId: string | null
  readonly email: string
}

/** Makes a link to be mailed to its address, and takes back the earlier ones for the same purpose. Returns its path. */
export async function makeMailedLink(
  sql: Sql,
  { purpose, personId, email }: MailedLink,
  nowMs: number,
): Promise<string> {
  await sql.query(
    personId === null
      ? 'DELETE FROM person_token WHERE purpose = $1 AND lower(email) = lower($2)'
      : 'DELETE FROM person_token WHERE purpose = $1 AND person_id = $2',
    [purpose, personId ?? email],
  )
  const { token, hash } = mintSecretToken()
  await sql.query(
    `INSERT INTO person_token (token_hash, purpose, person_id, email, is_mailed, expires_at)
     VALUES ($1, $2, $3, $4, true, $5)`,
    [hash, purpose, personId, email, new Date(nowMs + MAILED_MS[purpose])],
  )
  return `${MAILED_PATH[purpose]}#${token}`
}

/** Returns a mailed link, without using it up. Undefined as for `useWelcomeLink`. */
export async function readMailedLink(
  sql: Sql,
  purpose: MailedLink['purpose'],
  token: string,
  nowMs: number,
): Promise<MailedLink | undefined> {
  const { rows } = await sql.query<MailedLink>(
    `SELECT purpose, person_id AS "personId", email FROM person_token
      WHERE token_hash = $1 AND purpose = $2 AND expires_at > $3`,
    [hashSecretToken(token), purpose, new Date(nowMs)],
  )
  return rows[0]
}

/** Returns a mailed link and uses it up. Undefined as for `useWelcomeLink`. */
export async function useMailedLink(
  sql: Sql,
  purpose: MailedLink['purpose'],
  token: string,
  nowMs: number,
): Promise<MailedLink | undefined> {
  const { rows } = await sql.query<MailedLink>(
    `DELETE FROM person_token WHERE token_hash = $1 AND purpose = $2 AND expires_at > $3
     RETURNING purpose, person_id AS "personId", email`,
    [hashSecretToken(token), purpose, new Date(nowMs)],
  )
  return rows[0]
}

/** Returns the person of a welcome link and uses the link up. Undefined when it was used, is too old or never existed. */
export async function useWelcomeLink(sql: Sql, token: string, nowMs: number): Promise<string | undefined> {
  const { rows } = await sql.query<{ personId: string }>(
    `DELETE FROM person_token WHERE token_hash = $1 AND purpose = 'welcome' AND expires_at > $2
     RETURNING person_id AS "personId"`,
    [hashSecretToken(token), new Date(nowMs)],
  )
  return rows[0]?.personId
}

/** Returns the invitation of a link, without using it up. Undefined as for `useWelcomeLink`. */
export async function readInviteLink(sql: Sql, token: string, nowMs: number): Promise<Invitation | undefined> {
  const { rows } = await sql.query<Invitation>(
    `SELECT customer_id AS "customerId", t.email, t.role, is_mailed AS "isMailed"
       FROM person_token t JOIN customer c USING (customer_id)
      WHERE token_hash = $1 AND purpose = 'invite' AND expires_at > $2 AND c.deleted_at IS NULL FOR UPDATE OF t`,
    [hashSecretToken(token), new Date(nowMs)],
  )
  return rows[0]
}

export async function useInviteLink(sql: Sql, token: string): Promise<void> {
  await sql.query("DELETE FROM person_token WHERE token_hash = $1 AND purpose = 'invite'", [hashSecretToken(token)])
}

/** Deletes links that nobody used in time. */
export async function deleteOldLinks(sql: Sql, nowMs: number): Promise<void> {
  await sql.query('DELETE FROM person_token WHERE expires_at <= $1', [new Date(nowMs)])
}
