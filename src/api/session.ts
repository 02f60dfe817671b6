import { z } from 'zod'
import { bodyRefusal } from '../dialects/json/body-refusal.ts'
import { parseJsonObject } from '../dialects/json/parse-json.ts'
import { ApiError } from '../domain/errors.ts'
import { type InstallationRole, installationRoles, type MemberRole, memberRoles } from '../domain/member-role.ts'
import { isEmail } from '../runtime/email.ts'
import { PLAIN_TEXT } from '../runtime/plain-text.ts'

// The bodies of /console/api. Each `error` text completes the sentence "`param` must be ...".

/** In characters. OWASP ASVS 5.0 requires 8 and recommends 15. */
const PASSWORD_CHARACTERS_MIN = 12
/** In UTF-8. The limit bounds the work of hashing. */
const PASSWORD_BYTES_MAX = 1_024

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
    confirmed_at: z.string().describe('When the person last typed the password.'),
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
    customer_email: z.string(),
    role: z.enum(memberRoles),
    has_password: z.boolean().describe('Whether the person types an existing password, or sets one.'),
  })
  .meta({ id: 'InvitationShown' })

const object = { error: 'a JSON object' }
const email = z.string({ error: 'an e-mail address' }).trim().refine(isEmail, { error: 'an e-mail address' })
const nameText = 'a text of at most 200 characters without control characters or text direction marks'
const name = z.string({ error: nameText }).trim().max(200, { error: nameText }).refine(isName, { error: nameText })
// Checked apart: the text of an error shows what was sent.
const password = z.unknown()
const token = z.string({ error: 'the text after # in the link' }).max(200, { error: 'the text after # in the link' })

const signInRequest = z.strictObject({ email, password }, object)
const welcomeRequest = z.strictObject({ token, email: email.nullish(), password }, object)
const inviteTokenRequest = z.strictObject({ token }, object)
const joinRequest = z.strictObject({ token, name: name.nullish(), password }, object)
const passwordRequest = z.strictObject({ current_password: password, new_password: password }, object)
const confirmRequest = z.strictObject({ password }, object)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault.

export function parseSignIn(body: Buffer): { email: string; password: string } {
  const { email, password } = parse(body, signInRequest, 'a sign-in')
  return { email, password: typedPassword(password, 'password') }
}

export function parseWelcome(body: Buffer): { token: string; email: string | null; password: string } {
  const { token, email = null, password } = parse(body, welcomeRequest, 'a welcome')
  return { token, email, password: newPassword(password, 'password') }
}

export function parseInviteToken(body: Buffer): string {
  return parse(body, inviteTokenRequest, 'an invitation').token
}

export function parseJoin(body: Buffer): { token: string; name: string; password: string } {
  const { token, name, password } = parse(body, joinRequest, 'an answer to an invitation')
  return { token, name: name ?? '', password: typedPassword(password, 'password') }
}

export function parsePasswordChange(body: Buffer): { currentPassword: string; newPassword: string } {
  const { current_password, new_password } = parse(body, passwordRequest, 'a change of a password')
  return {
    currentPassword: typedPassword(current_password, 'current_password'),
    newPassword: newPassword(new_password, 'new_password'),
  }
}

export function parseConfirmation(body: Buffer): string {
  return typedPassword(parse(body, confirmRequest, 'a confirmation').password, 'password')
}

/** Throws unless the password is long enough to be set. */
export function requireGoodPassword(password: string, param = 'password'): void {
  if ([...password.normalize('NFC')].length >= PASSWORD_CHARACTERS_MIN) return
  throw new ApiError('invalid_value', {
    message: `The password is too short. Use at least ${PASSWORD_CHARACTERS_MIN} characters, such as four words.`,
    param,
  })
}

function newPassword(value: unknown, param: string): string {
  const password = typedPassword(value, param)
  requireGoodPassword(password, param)
  return password
}

function typedPassword(value: unknown, param: string): string {
  if (value === undefined) throw new ApiError('missing_parameter', { message: `"${param}" is required.`, param })
  if (typeof value === 'string' && value !== '' && Buffer.byteLength(value) <= PASSWORD_BYTES_MAX) return value
  throw new ApiError('invalid_value', {
    message: `"${param}" must be a text of 1 to ${PASSWORD_BYTES_MAX} bytes.`,
    param,
  })
}

function isName(text: string): boolean {
  return text === '' || PLAIN_TEXT.test(text)
}

function parse<T extends z.ZodObject>(body: Buffer, schema: T, what: string): z.output<T> {
  const input = parseJsonObject(body)
  const result = schema.safeParse(input)
  if (!result.success) throw bodyRefusal(result.error, input, { what, schema })
  return result.data
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
}

interface ShownMembership {
  readonly customerId: string
  readonly customerEmail: string
  readonly role: MemberRole
}

export function showSession(
  { person, confirmedAt, expiresAt }: ShownSession,
  memberships: readonly ShownMembership[],
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
  }
}
