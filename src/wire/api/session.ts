import type { AuthenticationResponseJSON } from '@simplewebauthn/server'
import { z } from 'zod'
import {
  type InstallationRole,
  installationRoles,
  type MemberRole,
  memberRoles,
} from '../../base/domain/member-role.ts'
import { code, email, name, newPassword, object, password, token, typedPassword } from './console-body.ts'
import { passkeyField } from './passkeys.ts'
import { parseStrictBody } from './strict-body.ts'

/** The person and the memberships: the answer of `GET /console/api/session`. */
export const session = z
  .object({
    person: z.object({
      id: z.string(),
      email: z.string(),
      name: z.string(),
      role: z.enum(installationRoles).nullable().describe('The role on the installation.'),
    }),
    memberships: z.array(z.object({ customer_id: z.string(), email: z.string(), role: z.enum(memberRoles) })),
    expires_at: z.string().describe('When the session ends at the latest.'),
    confirmed_at: z
      .string()
      .describe(
        'When the person last proved who they are: with the password, a code, a passkey or at another service. 1970 when a former session must prove it again.',
      ),
    has_second_factor: z.boolean().describe('Whether this session used a second factor.'),
    needs_second_factor: z.boolean().describe('Whether the role on the installation waits for a second factor.'),
    has_factor: z.boolean().describe('Whether the person has an authenticator app or a passkey.'),
    invited_role: z
      .enum(installationRoles)
      .nullable()
      .describe('The role on the installation that the person was invited for, until an operator gives it.'),
    first_factor_command: z
      .string()
      .nullable()
      .describe('What to run on the host for a link whose session may add the first factor. Null: this session may.'),
  })
  .meta({ id: 'Session' })
export type SignedInSession = z.infer<typeof session>

export const sessionList = z
  .object({
    object: z.literal('list'),
    data: z.array(
      z.object({
        id: z.string(),
        is_current: z.boolean(),
        created_at: z.string(),
        last_seen_at: z.string(),
        user_agent: z.string(),
        address: z.string(),
      }),
    ),
  })
  .meta({ id: 'SessionList' })
export type SessionList = z.infer<typeof sessionList>

export const invitationShown = z
  .object({
    email: z.string(),
    customer_email: z
      .string()
      .nullable()
      .describe('Null: the invitation leads to a hoster, or to the operators of the gateway.'),
    hoster: z.object({ id: z.string(), name: z.string() }).nullable(),
    role: z.enum([...memberRoles, ...installationRoles]),
    has_password: z
      .boolean()
      .nullable()
      .describe(
        'Whether the person types an existing password, or sets one. Null: the link was not mailed, so another person may have it.',
      ),
  })
  .meta({ id: 'InvitationShown' })

const secondFactor = { code: code.nullish(), passkey: passkeyField.nullish() }
const signInRequest = z.strictObject({ email, password, ...secondFactor }, object)
const welcomeRequest = z.strictObject({ token, email: email.nullish(), password }, object)
const inviteTokenRequest = z.strictObject({ token }, object)
const joinRequest = z.strictObject({ token, name: name.nullish(), password, ...secondFactor }, object)
const passwordRequest = z.strictObject({ current_password: password.optional(), new_password: password }, object)
const confirmRequest = z.strictObject({ password: password.optional(), ...secondFactor }, object)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault.

interface TypedFactor {
  readonly code: string | null
  readonly passkey: AuthenticationResponseJSON | null
}

export function parseSignIn(body: Buffer): { email: string; password: string } & TypedFactor {
  const { email, password, code, passkey } = parseStrictBody(body, signInRequest, 'a sign-in')
  return { email, password: typedPassword(password, 'password'), code: code ?? null, passkey: passkey ?? null }
}

export function parseWelcome(body: Buffer): { token: string; email: string | null; password: string } {
  const { token, email = null, password } = parseStrictBody(body, welcomeRequest, 'a welcome')
  return { token, email, password: newPassword(password, 'password') }
}

export function parseInviteToken(body: Buffer): string {
  return parseStrictBody(body, inviteTokenRequest, 'an invitation').token
}

export function parseJoin(body: Buffer): { token: string; name: string; password: string } & TypedFactor {
  const { token, name, password, code, passkey } = parseStrictBody(body, joinRequest, 'an answer to an invitation')
  const factor = { code: code ?? null, passkey: passkey ?? null }
  return { token, name: name ?? '', password: typedPassword(password, 'password'), ...factor }
}

/** `currentPassword` is null when the body has none: the person has no password yet. */
export function parsePasswordChange(body: Buffer): { currentPassword: string | null; newPassword: string } {
  const { current_password, new_password } = parseStrictBody(body, passwordRequest, 'a change of a password')
  return {
    currentPassword: current_password === undefined ? null : typedPassword(current_password, 'current_password'),
    newPassword: newPassword(new_password, 'new_password'),
  }
}

/** A password, a code or a passkey is needed. */
export function parseConfirmation(body: Buffer): { password: string | null } & TypedFactor {
  const { password, code, passkey } = parseStrictBody(body, confirmRequest, 'a confirmation')
  const factor = { code: code ?? null, passkey: passkey ?? null }
  const hasFactor = factor.code !== null || factor.passkey !== null
  if (hasFactor && password === undefined) return { password: null, ...factor }
  return { password: typedPassword(password, 'password'), ...factor }
}

interface ShownSession {
  readonly person: {
    readonly personId: string
    readonly email: string
    readonly name: string
    readonly installationRole: InstallationRole | null
  }
  readonly confirmedAt: Date
  readonly expiresAt: Date
  readonly hasSecondFactor: boolean
  readonly hasFactor: boolean
}

interface ShownMembership {
  readonly customerId: string
  readonly customerEmail: string
  readonly role: MemberRole
}

export function showSession(
  { person, confirmedAt, expiresAt, hasSecondFactor, hasFactor }: ShownSession,
  memberships: readonly ShownMembership[],
  {
    needsSecondFactor,
    firstFactorCommand,
    invitedRole,
  }: { needsSecondFactor: boolean; firstFactorCommand: string | null; invitedRole: InstallationRole | null },
): z.infer<typeof session> {
  const { personId: id, email, name, installationRole: role } = person
  return {
    person: { id, email, name, role },
    memberships: memberships.map(({ customerId, customerEmail, role }) => ({
      customer_id: customerId,
      email: customerEmail,
      role,
    })),
    expires_at: expiresAt.toISOString(),
    confirmed_at: confirmedAt.toISOString(),
    has_second_factor: hasSecondFactor,
    needs_second_factor: needsSecondFactor,
    has_factor: hasFactor,
    invited_role: invitedRole,
    first_factor_command: firstFactorCommand,
  }
}
