import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import type { SealingKeys } from '../../base/domain/sealing-keys.ts'

// An attempt to sign in at another service is kept by the browser, in a cookie with a MAC. What the service gets
// (state, nonce, PKCE) follows from the cookie and a key of the gateway, so nothing is stored before the service has
// answered.

export interface OidcAttempt {
  /** The id of the service in the configuration. */
  readonly provider: string
  readonly purpose: 'sign-in' | 'link' | 'confirm'
  /** Where the page goes afterwards. */
  readonly returnTo: string
  /** Where the service sends the browser. */
  readonly redirectUri: string
  /** The session that links or confirms; null to sign in. */
  readonly sessionId: string | null
  /** SHA-256 of the secret of the invitation that the person accepts, in hexadecimal; null for none. */
  readonly inviteHash: string | null
}

export interface OidcSecrets {
  readonly state: string
  readonly nonce: string
  readonly codeVerifier: string
}

const VALID_MS = 600_000

/** Makes the cookie of an attempt. It works for ten minutes. */
export function mintAttempt(
  { current: key }: SealingKeys,
  attempt: OidcAttempt,
  nowMs: number,
): { cookie: string; expiresAt: Date; secrets: OidcSecrets } {
  const expiresMs = nowMs + VALID_MS
  const random = randomBytes(16).toString('base64url')
  const body = Buffer.from(JSON.stringify({ ...attempt, expiresMs, random })).toString('base64url')
  const cookie = `${body}.${mac(key, 'cookie', body)}`
  return { cookie, expiresAt: new Date(expiresMs), secrets: secretsOf(key, cookie) }
}

/** Reads the cookie of an attempt. Returns undefined if it was not made here, or is too old. */
export function readAttempt(
  { all }: SealingKeys,
  cookie: string,
  nowMs: number,
): { attempt: OidcAttempt; secrets: OidcSecrets } | undefined {
  const [body = '', proof = ''] = cookie.split('.')
  const key = all.find(each => isSame(proof, mac(each, 'cookie', body)))
  if (key === undefined) return undefined
  const {
    expiresMs,
    random: _,
    ...attempt
  } = JSON.parse(Buffer.from(body, 'base64url').toString()) as OidcAttempt & {
    expiresMs: number
    random: string
  }
  return expiresMs > nowMs ? { attempt, secrets: secretsOf(key, cookie) } : undefined
}

/** Marks a state as used. Returns false if it was used before. */
export async function spendState(sql: Sql, state: string, nowMs: number): Promise<boolean> {
  const { rowCount } = await sql.query(
    `INSERT INTO person_token (token_hash, purpose, expires_at) VALUES ($1, 'oidc', $2) ON CONFLICT (token_hash) DO NOTHING`,
    [createHash('sha256').update(state).digest(), new Date(nowMs + VALID_MS)],
  )
  return rowCount === 1
}

/** In constant time. */
export function isSame(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)]
  return a.length === b.length && timingSafeEqual(a, b)
}

function secretsOf(key: Buffer, cookie: string): OidcSecrets {
  const secretOf = (what: string) => mac(key, what, cookie)
  return { state: secretOf('state'), nonce: secretOf('nonce'), codeVerifier: secretOf('verifier') }
}

/** 43 characters of base64url. */
function mac(key: Buffer, what: string, text: string): string {
  return createHmac('sha256', key).update(`${what} ${text}`).digest('base64url')
}
