import type { Sql } from '../../base/db/pool.ts'
import type { InstallationRole } from '../../base/domain/member-role.ts'
import type { Identity } from './identities.ts'
import { hashSecretToken, mintSecretToken } from './secret-token.ts'

const VALID_MS = 600_000

/** The identity that signs in, the role of its groups, and the invitation that it accepts: as in `OidcAttempt`. */
export type PendingIdentity = Identity & {
  readonly groupRole: InstallationRole | null
  readonly inviteHash: string | null
}

/** Keeps a sign-in that waits for the second factor. Returns the token for a cookie. */
export async function makePendingSignIn(
  sql: Sql,
  personId: string,
  identity: PendingIdentity,
  nowMs: number,
): Promise<{ token: string; expiresAt: Date }> {
  const { token, hash } = mintSecretToken()
  const expiresAt = new Date(nowMs + VALID_MS)
  await sql.query(
    "INSERT INTO person_token (token_hash, purpose, person_id, detail, expires_at) VALUES ($1, 'second_factor', $2, $3, $4)",
    [hash, personId, JSON.stringify(identity), expiresAt],
  )
  return { token, expiresAt }
}

/** Returns a sign-in that waits, without using it up. Undefined when it was used, is too old or never existed. */
export async function readPendingSignIn(
  sql: Sql,
  token: string,
  nowMs: number,
): Promise<{ personId: string; identity: PendingIdentity } | undefined> {
  const { rows } = await sql.query<{ personId: string; identity: PendingIdentity }>(
    `SELECT person_id AS "personId", detail AS identity FROM person_token
      WHERE token_hash = $1 AND purpose = 'second_factor' AND expires_at > $2`,
    [hashSecretToken(token), new Date(nowMs)],
  )
  return rows[0]
}

/** Marks a sign-in that waits as used. Returns false if it was used before. */
export async function usePendingSignIn(sql: Sql, token: string): Promise<boolean> {
  const { rowCount } = await sql.query("DELETE FROM person_token WHERE token_hash = $1 AND purpose = 'second_factor'", [
    hashSecretToken(token),
  ])
  return rowCount === 1
}
