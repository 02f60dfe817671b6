import { randomUUID } from 'node:crypto'
import type { Sql } from '../../base/db/pool.ts'
import { DAY_MS, MINUTE_MS } from '../../base/domain/durations.ts'
import { ApiError } from '../../base/domain/errors.ts'
import type { InstallationRole, MemberRole } from '../../base/domain/member-role.ts'
import type { PriceGroupName } from '../../base/domain/price-group.ts'
import { HAS_FACTOR, lockPerson, type Person } from './persons.ts'
import { hashSecretToken, mintSecretToken } from './secret-token.ts'

/** The key of an operator that a program used in the place of a session. */
export interface OperatorKeyInUse {
  readonly keyId: string
  /** Whether it has the scope `money`. */
  readonly mayMoveMoney: boolean
  /** Seals answers that are kept for repeats. Only the key itself opens them. */
  seal(text: string): Buffer
  open(sealed: Buffer): string
}

/** A person in a browser, as of this request; or a program with the key of an operator. */
export interface SignedIn {
  /** Set for a program. The session is that of the key then. */
  readonly key?: OperatorKeyInUse
  readonly sessionId: string
  /** The hash of the token that the client sent. */
  readonly tokenHash: Buffer
  readonly person: Person
  /** When the person last typed a password or used another factor. */
  readonly confirmedAt: Date
  readonly expiresAt: Date
  /** Whether the person used a second factor in this session. */
  readonly hasSecondFactor: boolean
  /** Whether a link that the host printed opened the session. */
  readonly isFromHost: boolean
  /** Whether the person has an authenticator app or a passkey. */
  readonly hasFactor: boolean
}

/** The customer that a signed-in person looks at. */
export interface VisitedCustomer {
  readonly customerId: string
  readonly email: string
  readonly accountTier: string
  readonly requestsPerMinute: number | null
  readonly requestsPerDay: number | null
  readonly dailySpendCapNanos: bigint | null
  readonly priceGroup: PriceGroupName | null
  /** Null: the person is no member. */
  readonly role: MemberRole | null
}

/** What is known of the client of a request. */
export interface ClientTrace {
  readonly address: string
  readonly userAgent: string
  /** What the cookie of devices holds. Missing: the browser is new, or the caller is none. */
  readonly device?: string | undefined
}

/** How long a session lasts: without use, and at most. */
function lifetimeOf(role: InstallationRole | null): { readonly idleMs: number; readonly maxMs: number } {
  return role === null ? { idleMs: 14 * DAY_MS, maxMs: 90 * DAY_MS } : { idleMs: DAY_MS / 2, maxMs: 7 * DAY_MS }
}

export interface OpenedSession {
  readonly sessionId: string
  /** For the cookie. It cannot be read again. */
  readonly token: string
  readonly expiresAt: Date
}

/** Signs a person in. */
export async function openSession(
  sql: Sql,
  { personId, installationRole }: Pick<Person, 'personId' | 'installationRole'>,
  { address, userAgent }: ClientTrace,
  nowMs: number,
  { hasSecondFactor = false, isFromHost = false } = {},
): Promise<OpenedSession> {
  const { token, hash } = mintSecretToken()
  const sessionId = randomUUID()
  const expiresAt = new Date(nowMs + lifetimeOf(installationRole).maxMs)
  const now = new Date(nowMs)
  await sql.query(
    `INSERT INTO person_session (session_id, token_hash, person_id, confirmed_at, last_seen_at, expires_at, user_agent, address, created_at, has_second_factor, is_from_host)
     VALUES ($1, $2, $3, $4, $4, $5, $6, $7, $4, $8, $9)`,
    [sessionId, hash, personId, now, expiresAt, userAgent, address, hasSecondFactor, isFromHost],
  )
  return { sessionId, token, expiresAt }
}

interface SessionRow extends Person {
  readonly sessionId: string
  readonly confirmedAt: Date
  readonly lastSeenAt: Date
  readonly expiresAt: Date
  readonly hasSecondFactor: boolean
  readonly isFromHost: boolean
  readonly hasFactor: boolean
  readonly isFormerToken: boolean
  readonly customer: Omit<VisitedCustomer, 'dailySpendCapNanos'> | null
  readonly dailySpendCapNanos: bigint | null
}

const FIND = `
  SELECT session_id AS "sessionId", confirmed_at AS "confirmedAt", last_seen_at AS "lastSeenAt", expires_at AS "expiresAt",
         p.person_id AS "personId", p.email, p.name, p.installation_role AS "installationRole",
         s.has_second_factor AS "hasSecondFactor", s.is_from_host AS "isFromHost",
         ${HAS_FACTOR} AS "hasFactor",
         token_hash <> $1 AS "isFormerToken",
         CASE WHEN c.customer_id IS NOT NULL THEN jsonb_build_object(
           'customerId', c.customer_id, 'email', c.email, 'accountTier', c.account_tier,
           'requestsPerMinute', c.requests_per_minute, 'requestsPerDay', c.requests_per_day, 'role', m.role,
           'priceGroup', CASE WHEN g.name IS NOT NULL THEN jsonb_build_object('name', g.name, 'version', g.version) END) END AS customer,
         c.daily_spend_cap_nanos AS "dailySpendCapNanos"
    FROM person_session s JOIN person p USING (person_id)
    LEFT JOIN customer c ON c.customer_id = $2 AND c.deleted_at IS NULL
    LEFT JOIN membership m ON m.customer_id = c.customer_id AND m.person_id = p.person_id
    LEFT JOIN tier_price_group t USING (account_tier)
    LEFT JOIN price_group g ON g.name = coalesce(c.price_group, t.price_group)
   WHERE (token_hash = $1 OR (previous_token_hash = $1 AND token_changed_at > $3)) AND p.disabled_at IS NULL`

/**
 * Finds the session of a token, with the customer that the request concerns. Returns undefined when the session has
 * ended. `customer` is undefined when `customerId` is null or no customer has it.
 */
export async function findSession(
  sql: Sql,
  token: string,
  customerId: string | null,
  nowMs: number,
): Promise<{ signedIn: SignedIn; customer: VisitedCustomer | undefined } | undefined> {
  const tokenHash = hashSecretToken(token)
  const { rows } = await sql.query<SessionRow>({ name: 'people_find_session', text: FIND }, [
    tokenHash,
    customerId,
    new Date(nowMs - FORMER_TOKEN_MS),
  ])
  const [row] = rows
  if (row === undefined) return undefined
  const { sessionId, confirmedAt, lastSeenAt, expiresAt, customer, dailySpendCapNanos, ...others } = row
  const { hasSecondFactor, isFromHost, hasFactor, isFormerToken, ...person } = others
  if (hasEnded({ installationRole: person.installationRole, lastSeenAt, expiresAt }, nowMs)) return undefined
  if (nowMs - lastSeenAt.getTime() >= MINUTE_MS) {
    await sql.query('UPDATE person_session SET last_seen_at = $2 WHERE session_id = $1', [sessionId, new Date(nowMs)])
  }
  return {
    signedIn: {
      sessionId,
      tokenHash,
      person,
      // A former token, which another program may know, has no confirmation.
      confirmedAt: isFormerToken ? new Date(0) : confirmedAt,
      expiresAt,
      hasSecondFactor,
      isFromHost,
      hasFactor,
    },
    customer: customer === null ? undefined : { ...customer, dailySpendCapNanos },
  }
}

/** Whether a session has ended by itself: too long without use, or at its end. */
export function hasEnded(
  session: { installationRole: InstallationRole | null; lastSeenAt: Date; expiresAt: Date },
  nowMs: number,
): boolean {
  const idleUntilMs = session.lastSeenAt.getTime() + lifetimeOf(session.installationRole).idleMs
  return Math.min(idleUntilMs, session.expiresAt.getTime()) <= nowMs
}

/** A session as its person sees it. */
export interface ListedSession {
  readonly sessionId: string
  readonly createdAt: Date
  readonly lastSeenAt: Date
  readonly userAgent: string
  readonly address: string
}

/** Returns the sessions of a person that have not ended, the last used one first. */
export async function listSessions(
  sql: Sql,
  { personId, installationRole }: Person,
  nowMs: number,
): Promise<ListedSession[]> {
  const { rows } = await sql.query<ListedSession>(
    `SELECT session_id AS "sessionId", created_at AS "createdAt", last_seen_at AS "lastSeenAt", user_agent AS "userAgent", address
       FROM person_session WHERE person_id = $1 AND expires_at > $2 AND last_seen_at > $3 ORDER BY last_seen_at DESC, session_id`,
    [personId, new Date(nowMs), new Date(nowMs - lifetimeOf(installationRole).idleMs)],
  )
  return rows
}

/**
 * Locks the person of a session. Rejects with `not_signed_in` if the session has ended or got another token: a request
 * that began before must not change a way to sign in.
 */
export async function lockSession(
  sql: Sql,
  { sessionId, tokenHash, person }: Pick<SignedIn, 'sessionId' | 'tokenHash' | 'person'>,
): Promise<void> {
  await lockPerson(sql, person.personId)
  const { rowCount } = await sql.query('SELECT FROM person_session WHERE session_id = $1 AND token_hash = $2', [
    sessionId,
    tokenHash,
  ])
  if (rowCount === 0) throw new ApiError('not_signed_in')
}

/** Ends a session of a person. Returns false when it had ended. */
export async function endSession(sql: Sql, personId: string, sessionId: string): Promise<boolean> {
  const { rowCount } = await sql.query('DELETE FROM person_session WHERE person_id = $1 AND session_id = $2', [
    personId,
    sessionId,
  ])
  return rowCount !== 0
}

/**
 * Ends the sessions of a person, except `kept`, with what one of them may have begun: links to a new e-mail address,
 * and sign-ins that wait for the second factor. Returns how many sessions there were.
 */
export async function endOtherSessions(sql: Sql, personId: string, kept: string | null): Promise<number> {
  await sql.query("DELETE FROM person_token WHERE person_id = $1 AND purpose IN ('email', 'second_factor')", [personId])
  const { rowCount } = await sql.query(
    'DELETE FROM person_session WHERE person_id = $1 AND session_id IS DISTINCT FROM $2',
    [personId, kept],
  )
  return rowCount ?? 0
}

/** How long a token still works after `confirmSession`, for requests that were on their way. */
const FORMER_TOKEN_MS = 30_000

/**
 * Notes that the person has just typed the password or a code, and gives the session another token. The former one ends
 * at once if the session gets the second factor. Refuses a token that `renewSession` has replaced in the meantime.
 *
 * @throws ApiError not_signed_in
 */
export async function confirmSession(
  sql: Sql,
  { sessionId, tokenHash, expiresAt }: Pick<SignedIn, 'sessionId' | 'tokenHash' | 'expiresAt'>,
  { hasSecondFactor }: { hasSecondFactor: boolean },
  nowMs: number,
): Promise<OpenedSession> {
  const { token, hash } = mintSecretToken()
  const { rowCount } = await sql.query(
    `UPDATE person_session
        SET confirmed_at = $2, token_hash = $3, token_changed_at = $2, has_second_factor = has_second_factor OR $4,
            previous_token_hash = CASE WHEN has_second_factor OR NOT $4 THEN token_hash END
      WHERE session_id = $1 AND $5 IN (token_hash, previous_token_hash)`,
    [sessionId, new Date(nowMs), hash, hasSecondFactor, tokenHash],
  )
  if (rowCount === 0) throw new ApiError('not_signed_in')
  return { sessionId, token, expiresAt }
}

/**
 * Ends the other sessions of a person after a change of the ways in, and gives this one another token. Another program
 * may know the former one, so it ends at once. Call `lockSession` first.
 */
export async function renewSession(
  sql: Sql,
  { sessionId, expiresAt, person }: Pick<SignedIn, 'sessionId' | 'expiresAt' | 'person'>,
  nowMs: number,
  { hasSecondFactor = false } = {},
): Promise<OpenedSession> {
  await endOtherSessions(sql, person.personId, sessionId)
  const { token, hash } = mintSecretToken()
  await sql.query(
    `UPDATE person_session SET token_hash = $2, token_changed_at = $3, previous_token_hash = NULL,
            has_second_factor = has_second_factor OR $4
      WHERE session_id = $1`,
    [sessionId, hash, new Date(nowMs), hasSecondFactor],
  )
  return { sessionId, token, expiresAt }
}

/** Deletes sessions that ended by themselves. Skips locked ones, as `deleteOldThrottles` does. */
export async function deleteEndedSessions(sql: Sql, nowMs: number): Promise<void> {
  await sql.query(
    `DELETE FROM person_session WHERE session_id IN (
       SELECT session_id FROM person_session WHERE expires_at <= $1 OR last_seen_at <= $2 FOR UPDATE SKIP LOCKED)`,
    [new Date(nowMs), new Date(nowMs - lifetimeOf(null).idleMs)],
  )
}
