import { z } from 'zod'
import { type KeyScope, keyScopes, type LimitReset, limitResets } from '../../base/domain/caller.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { type InvitedRole, installationRoles, type MemberRole, memberRoles } from '../../base/domain/member-role.ts'
import { type Nanos, usd } from '../../base/domain/money.ts'
import { email, object } from './console-body.ts'
import { limitReset, parseLimit, type RequestedLimit, spendLimit } from './key-request.ts'
import { parseStrictBody } from './strict-body.ts'

// The members of a customer, and invitations: the addresses under /console/api/customers/{customer_id}.

const role = z.enum(memberRoles)

export const member = z
  .object({
    id: z.string().describe('UUID of the person.'),
    email: z.string(),
    name: z.string(),
    role,
    is_you: z.boolean(),
    joined_at: z.string(),
    last_seen_at: z.string().nullable().describe('Null: no session is open.'),
    has_second_factor: z.boolean(),
    limit_usd: z
      .number()
      .nonnegative()
      .nullable()
      .describe(
        'Maximum that all keys of the person may spend in each window of `limit_reset`; null if there is no limit.',
      ),
    limit_reset: z.enum(limitResets),
    spent_usd: z
      .number()
      .nonnegative()
      .nullable()
      .describe('Charges that count against the limit in its window; null without a limit.'),
    limit_resets_at: z.string().nullable().describe('Null: never, or no limit.'),
  })
  .meta({ id: 'Member' })
export type MemberShown = z.infer<typeof member>

export const memberList = z.object({ object: z.literal('list'), data: z.array(member) }).meta({ id: 'MemberList' })
/** @public The console imports it. */
export type MemberList = z.infer<typeof memberList>

export const removedMember = z
  .object({
    removed: z.literal(true),
    keys_revoked: z.number().describe('Keys that the person had made, and that end within two seconds.'),
    keys_handed_over: z.number().describe('Keys that go on working, as those of the person who removed the member.'),
  })
  .meta({ id: 'RemovedMember' })
/** @public The console imports it. */
export type RemovedMember = z.infer<typeof removedMember>

export const madeKeys = z
  .object({
    object: z.literal('list'),
    data: z.array(
      z.object({
        id: z.string(),
        name: z.string(),
        hint: z.string(),
        scopes: z.array(z.enum(keyScopes)),
        created_at: z.string(),
      }),
    ),
  })
  .meta({ id: 'MadeKeys' })
/** @public The console imports it. */
export type MadeKeys = z.infer<typeof madeKeys>

export const invite = z
  .object({
    id: z.string(),
    email: z.string(),
    role,
    created_at: z.string(),
    expires_at: z.string(),
    made_by: z.string().nullable().describe('E-mail address. Null: the command line, or a deleted person.'),
  })
  .meta({ id: 'Invite' })
export type InviteShown = z.infer<typeof invite>

export const inviteList = z.object({ object: z.literal('list'), data: z.array(invite) }).meta({ id: 'InviteList' })
/** @public The console imports it. */
export type InviteList = z.infer<typeof inviteList>

const sending = {
  is_mailed: z
    .boolean()
    .describe('False with a null `url`: the mail server did not take the mail. Invite the person again.'),
  url: z.string().nullable().describe('The link, shown this once, if this server has no mail; otherwise null.'),
}
export const madeInvite = invite.extend(sending).meta({ id: 'MadeInvite' })
/** @public The console imports it. */
export type MadeInvite = z.infer<typeof madeInvite>

const operatorInvite = invite.extend({ role: z.enum(installationRoles) }).meta({ id: 'OperatorInvite' })
export const operatorInviteList = z.object({ object: z.literal('list'), data: z.array(operatorInvite) })
/** @public The console imports it. */
export type OperatorInviteList = z.infer<typeof operatorInviteList>
export const madeOperatorInvite = operatorInvite.extend(sending).meta({ id: 'MadeOperatorInvite' })

export const revokedInvite = z.object({ revoked: z.literal(true) })

const roleText = { error: `one of ${memberRoles.join(', ')}` }
const memberRequest = z.strictObject(
  {
    role: z.enum(memberRoles, roleText).optional(),
    spend_limit_usd: spendLimit.nullable().optional(),
    limit_reset: limitReset.optional(),
  },
  object,
)
const inviteRequest = z.strictObject({ email, role: z.enum(memberRoles, roleText) }, object)
const operatorRoleText = { error: `one of ${installationRoles.join(', ')}` }
const operatorInviteRequest = z.strictObject({ email, role: z.enum(installationRoles, operatorRoleText) }, object)

// All throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`.

/** The fields that a body changes. `changedLimit` applies the two of the limit. */
export interface RequestedMemberChange extends RequestedLimit {
  readonly role?: MemberRole | undefined
}

export function parseMemberChange(body: Buffer): RequestedMemberChange {
  const {
    role,
    spend_limit_usd: limit,
    limit_reset: reset,
  } = parseStrictBody(body, memberRequest, 'a change of a member')
  if (role === undefined && limit === undefined && reset === undefined) {
    throw new ApiError('invalid_value', {
      message: `The body changes nothing. The fields are ${Object.keys(memberRequest.shape).join(', ')}.`,
    })
  }
  return {
    role,
    ...(limit !== undefined && { limitNanos: limit === null ? null : parseLimit(limit) }),
    ...(reset !== undefined && { limitReset: reset }),
  }
}

/** Parses the query of a removal: `keys` is `revoke`, the default, or `hand_over`. */
export function parseKeysOfLeaver(query: unknown): 'revoke' | 'hand_over' {
  const { keys = 'revoke' } = query as { keys?: unknown }
  if (keys === 'revoke' || keys === 'hand_over') return keys
  throw new ApiError('invalid_value', { message: '"keys" must be revoke or hand_over.', param: 'keys' })
}

export function parseInvite(body: Buffer): { email: string; role: MemberRole } {
  return parseStrictBody(body, inviteRequest, 'an invitation')
}

export function parseOperatorInvite(body: Buffer): z.infer<typeof operatorInviteRequest> {
  return parseStrictBody(body, operatorInviteRequest, 'an invitation')
}

/** @param personId the person who looks */
export function showMember(
  shown: {
    readonly personId: string
    readonly email: string
    readonly name: string
    readonly role: MemberRole
    readonly joinedAt: Date
    readonly lastSeenAt: Date | null
    readonly hasSecondFactor: boolean
    readonly limitNanos: Nanos | null
    readonly limitReset: LimitReset
    readonly spentNanos: Nanos
    readonly resetsAt: Date | null
  },
  personId: string,
): MemberShown {
  return {
    id: shown.personId,
    email: shown.email,
    name: shown.name,
    role: shown.role,
    is_you: shown.personId === personId,
    joined_at: shown.joinedAt.toISOString(),
    last_seen_at: shown.lastSeenAt?.toISOString() ?? null,
    has_second_factor: shown.hasSecondFactor,
    limit_usd: shown.limitNanos === null ? null : usd(shown.limitNanos),
    limit_reset: shown.limitReset,
    spent_usd: shown.limitNanos === null ? null : usd(shown.spentNanos),
    limit_resets_at: shown.resetsAt?.toISOString() ?? null,
  }
}

export function showRemoved({ revoked, handedOver }: { readonly revoked: number; readonly handedOver: number }) {
  return { removed: true, keys_revoked: revoked, keys_handed_over: handedOver }
}

export function showMadeKey(key: {
  readonly keyId: string
  readonly name: string
  readonly hint: string
  readonly scopes: readonly KeyScope[]
  readonly createdAt: Date
}): MadeKeys['data'][number] {
  const { keyId: id, name, hint, scopes, createdAt } = key
  return { id, name, hint, scopes: [...scopes], created_at: createdAt.toISOString() }
}

export function showInvite<Role extends InvitedRole>(shown: {
  readonly inviteId: string
  readonly email: string
  readonly role: Role
  readonly createdAt: Date
  readonly expiresAt: Date
  readonly madeBy: string | null
}): Omit<InviteShown, 'role'> & { role: Role } {
  return {
    id: shown.inviteId,
    email: shown.email,
    role: shown.role,
    created_at: shown.createdAt.toISOString(),
    expires_at: shown.expiresAt.toISOString(),
    made_by: shown.madeBy,
  }
}
