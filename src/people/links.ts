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
