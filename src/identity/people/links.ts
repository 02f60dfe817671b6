import type { Sql } from '../../base/db/pool.ts'
import { HOUR_MS } from '../../base/domain/durations.ts'
import type { InstallationRole, InvitedRole, MemberRole } from '../../base/domain/member-role.ts'
import { hashSecretToken, mintSecretToken } from './secret-token.ts'

// A link works once. Its secret is the fragment of the address, which browsers do not send, so no log of a proxy has
// it.

const WELCOME_MS = 24 * HOUR_MS
export const INVITE_MS = 7 * 24 * HOUR_MS

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

/** A customer or a hoster that a person joins, with rights in it. */
export type MemberTarget = { readonly customerId: string } | { readonly hosterId: string }

/** What an invitation leads to: a customer, a hoster, or the operators and auditors of the installation. */
export type InviteTarget = MemberTarget | { readonly isInstallation: true }

export type RoleAt<Target extends InviteTarget> = Target extends { readonly isInstallation: true }
  ? InstallationRole
  : MemberRole

export type Invitation = InviteTarget & {
  readonly email: string
  readonly role: InvitedRole
  /** The member who invites; null: the command line. */
  readonly madeBy?: string | null
  /** Whether the link is mailed: then its use proves the address. */
  readonly isMailed?: boolean
}

/**
 * Makes the link with which a person joins a target, and takes back earlier invitations of that e-mail to it. Returns its
 * path.
 */
export async function makeInviteLink(sql: Sql, invitation: Invitation, nowMs: number): Promise<string> {
  const { email, role, madeBy = null, isMailed = false } = invitation
  const target = targetIds(invitation)
  await sql.query(
    `DELETE FROM person_token WHERE purpose = 'invite' AND ${IS_TO_TARGET} AND lower(email) = lower($3)`,
    [...target, email],
  )
  const { token, hash } = mintSecretToken()
  await sql.query(
    `INSERT INTO person_token (token_hash, purpose, customer_id, hoster_id, email, role, made_by, is_mailed, expires_at)
     VALUES ($1, 'invite', $2, $3, $4, $5, $6, $7, $8)`,
    [hash, ...target, email, role, madeBy, isMailed, new Date(nowMs + INVITE_MS)],
  )
  return `/invite#${token}`
}

/**
 * Takes back the invitations that a member made, so that nobody comes in by one after the member has left or lost the
 * right to invite.
 *
 * @param member.email also takes back invitations of this address; null: only those that the member made
 */
export async function takeBackInvitations(
  sql: Sql,
  target: InviteTarget,
  { personId, email }: { readonly personId: string; readonly email: string | null },
): Promise<void> {
  await sql.query(
    `DELETE FROM person_token WHERE purpose = 'invite' AND ${IS_TO_TARGET}
        AND (made_by = $3 OR lower(email) = lower($4))`,
    [...targetIds(target), personId, email],
  )
}

/** The ids of the customer and the hoster; one is null, or both for the installation. */
export function targetIds(target: InviteTarget): [customerId: string | null, hosterId: string | null] {
  if ('customerId' in target) return [target.customerId, null]
  return [null, 'hosterId' in target ? target.hosterId : null]
}

/** SQL: whether an invitation leads to the target whose `targetIds` are $1 and $2. */
export const IS_TO_TARGET = `(customer_id = $1 OR hoster_id = $2
  OR ($1::uuid IS NULL AND $2::uuid IS NULL AND customer_id IS NULL AND hoster_id IS NULL))`

export const MAILED_MS = { sign_up: 24 * HOUR_MS, reset: HOUR_MS, email: 24 * HOUR_MS } as const
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

/**
 * Returns the person of a welcome link and uses the link up. Undefined when it was used, is too old or never existed.
 */
export async function useWelcomeLink(sql: Sql, token: string, nowMs: number): Promise<string | undefined> {
  const { rows } = await sql.query<{ personId: string }>(
    `DELETE FROM person_token WHERE token_hash = $1 AND purpose = 'welcome' AND expires_at > $2
     RETURNING person_id AS "personId"`,
    [hashSecretToken(token), new Date(nowMs)],
  )
  return rows[0]?.personId
}

/** An invitation as its link shows it. */
export type ShownInvitation = MemberInvitation | InstallationInvitation

interface LinkedInvitation {
  /** The e-mail address of the customer, or the name of the hoster; empty for the installation. */
  readonly targetName: string
  readonly email: string
  readonly isMailed: boolean
}

interface MemberInvitation extends LinkedInvitation {
  readonly target: MemberTarget
  readonly role: MemberRole
}

interface InstallationInvitation extends LinkedInvitation {
  readonly target: { readonly isInstallation: true }
  readonly role: InstallationRole
}

export function isToInstallation(invitation: ShownInvitation): invitation is InstallationInvitation {
  return 'isInstallation' in invitation.target
}

/**
 * Returns the invitation of a link by the hash of its secret, without using it up. Undefined as for `useWelcomeLink`,
 * and when the inviter may not invite any more.
 */
export async function readInviteLink(sql: Sql, tokenHash: Buffer, nowMs: number): Promise<ShownInvitation | undefined> {
  const { rows } = await sql.query<InvitationRow>(
    `SELECT t.customer_id AS "customerId", t.hoster_id AS "hosterId", coalesce(c.email, h.name, '') AS "targetName", t.email, t.role,
            is_mailed AS "isMailed"
       FROM person_token t LEFT JOIN customer c ON c.customer_id = t.customer_id AND c.deleted_at IS NULL
       LEFT JOIN hoster h ON h.hoster_id = t.hoster_id AND h.state <> 'retired'
      WHERE token_hash = $1 AND purpose = 'invite' AND expires_at > $2
        AND (c.customer_id IS NOT NULL OR h.hoster_id IS NOT NULL OR (t.customer_id IS NULL AND t.hoster_id IS NULL AND made_by IS NOT NULL))
        AND (made_by IS NULL OR EXISTS (SELECT FROM person p WHERE p.person_id = made_by AND p.disabled_at IS NULL AND (
          p.installation_role = 'operator'
          OR EXISTS (SELECT FROM membership m WHERE m.person_id = made_by AND m.customer_id = t.customer_id AND m.role = 'owner')
          OR EXISTS (SELECT FROM hoster_member m WHERE m.person_id = made_by AND m.hoster_id = t.hoster_id AND m.role = 'owner'))))
      FOR UPDATE OF t`,
    [tokenHash, new Date(nowMs)],
  )
  const [found] = rows
  if (found === undefined) return undefined
  const { customerId, hosterId, role, ...shown } = found
  if (customerId !== null) return { ...shown, target: { customerId }, role: role as MemberRole }
  if (hosterId !== null) return { ...shown, target: { hosterId }, role: role as MemberRole }
  return { ...shown, target: { isInstallation: true }, role: role as InstallationRole }
}

interface InvitationRow {
  readonly customerId: string | null
  readonly hosterId: string | null
  readonly targetName: string
  readonly email: string
  readonly role: InvitedRole
  readonly isMailed: boolean
}

/** Uses up the link of an invitation. Returns the person who made it; null: the command line. */
export async function useInviteLink(sql: Sql, tokenHash: Buffer): Promise<string | null> {
  const { rows } = await sql.query<{ madeBy: string | null }>(
    `DELETE FROM person_token WHERE token_hash = $1 AND purpose = 'invite' RETURNING made_by AS "madeBy"`,
    [tokenHash],
  )
  return rows[0]?.madeBy ?? null
}

/** Deletes links that nobody used in time. Skips locked ones, as `deleteOldThrottles` does. */
export async function deleteOldLinks(sql: Sql, nowMs: number): Promise<void> {
  await sql.query(
    `DELETE FROM person_token WHERE token_id IN (
       SELECT token_id FROM person_token WHERE expires_at <= $1 FOR UPDATE SKIP LOCKED)`,
    [new Date(nowMs)],
  )
}
