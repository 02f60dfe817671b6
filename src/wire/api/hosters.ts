import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { hosterScopes } from '../../base/domain/hoster-access.ts'
import { hosterActors, hosterStates } from '../../base/domain/hoster-state.ts'
import { memberRoles } from '../../base/domain/member-role.ts'
import { PLAIN_TEXT } from '../../base/runtime/plain-text.ts'
import { codedSentences } from './coded-sentences.ts'
import { email } from './console-body.ts'
import { parseStrictBody } from './strict-body.ts'

// What hosters read and send: the addresses under /v1/hoster and /console/api/hosters/{hoster_id}.

const state = z.enum(hosterStates).meta({
  description: 'Only `active` hosters receive requests. docs/hosters.md describes the states.',
})

/** The answer of `GET /v1/hoster`. */
export const ownHoster = z
  .object({
    object: z.literal('hoster'),
    id: z.string(),
    name: z.string(),
    state,
    trust_score: z.number().describe('From 0 to 1, as of an earlier day.'),
    share: z.number().describe('The part of each charge that the hoster earns, from 0 to 1.'),
    created_at: z.string(),
    active_since: z.string().nullable().describe('When it was first active.'),
    endpoint: z.object({
      id: z.string(),
      transport: z.enum(['direct', 'agent']),
      base_url: z.string().nullable().describe('Null: the agent connects to the gateway.'),
      challenge_passed_at: z.string().nullable(),
    }),
    state_changes: z
      .array(
        z.object({
          from: z.enum(hosterStates).nullable(),
          to: z.enum(hosterStates),
          by: z.enum(hosterActors),
          reason: z.string(),
          reason_codes: codedSentences,
          at: z.string(),
        }),
      )
      .describe('The last 100, the newest first.'),
  })
  .meta({
    id: 'Hoster',
    example: {
      object: 'hoster',
      id: '5b0e7a1c-8f0d-4a34-9d7f-2f0f6f1d9c11',
      name: 'acme',
      state: 'active',
      trust_score: 0.84,
      share: 0.8,
      created_at: '2026-11-25T09:00:00.000Z',
      active_since: '2026-11-25T09:20:00.000Z',
      endpoint: {
        id: '0f1b54a4-6d0c-4d5a-8d57-0d6c2f5c1b77',
        transport: 'direct',
        base_url: 'https://models.acme.dev/v1',
        challenge_passed_at: '2026-11-25T09:05:00.000Z',
      },
      state_changes: [
        {
          from: 'verified',
          to: 'active',
          by: 'operator',
          reason: 'Reviewed.',
          reason_codes: [],
          at: '2026-11-25T09:20:00.000Z',
        },
      ],
    },
  })

/** The answer of `GET /console/api/hosters`. */
export const hosterMemberships = z
  .object({
    id: z.string().optional().describe('After an application: the new hoster.'),
    data: z.array(z.object({ id: z.string(), name: z.string(), state, role: z.enum(memberRoles) })),
    terms: z
      .object({
        share_percent: z.number().describe('Of each charge, what a new hoster earns.'),
        hold_days: z.number().describe('How old a request is before its share is paid out.'),
        min_payout_usd: z.number().describe('Less is not paid out.'),
        max_input_usd_per_million: z.number(),
        max_output_usd_per_million: z.number(),
      })
      .describe('What the operator offers those who apply now.'),
  })
  .meta({ id: 'HosterMemberships' })

const hosterKeyShown = {
  id: z.string(),
  name: z.string(),
  hint: z.string().describe('The first ten and the last four characters.'),
  scopes: z.array(z.enum(hosterScopes)),
  created_at: z.string(),
  expires_at: z.string().nullable(),
}
export const hosterKeyList = z
  .object({ object: z.literal('list'), data: z.array(z.object(hosterKeyShown)) })
  .meta({ id: 'HosterKeyList' })
export const issuedHosterKey = z
  .object({ ...hosterKeyShown, key: z.string().describe('The key itself. Only this answer contains it.') })
  .meta({ id: 'IssuedHosterKey' })
export const revokedHosterKey = z.object({ id: z.string(), revoked: z.literal(true) }).meta({ id: 'RevokedHosterKey' })

export const hosterMembers = z
  .object({
    data: z.array(
      z.object({
        id: z.string(),
        email: z.string(),
        name: z.string(),
        role: z.enum(memberRoles),
        joined_at: z.string(),
      }),
    ),
  })
  .meta({ id: 'HosterMembers' })

// Bodies. Each `error` text completes the sentence "`param` must be ...".

const object = { error: 'a JSON object' }
const nameText = 'a text of 1 to 200 characters without control characters'
const text = z.string({ error: nameText }).regex(PLAIN_TEXT, { error: nameText })
const reasonText = 'a reason of 1 to 200 characters without control characters'
export const reason = z.string({ error: reasonText }).regex(PLAIN_TEXT, { error: reasonText })
const transportText = 'direct or agent'
const urlText = 'the https address of the server, up to and including /v1'
const keyText = 'the key that the server expects, as text'
const scopesText = `a list of one or more of ${hosterScopes.join(', ')}`
const timeText = 'a time in the future such as 2027-01-31T00:00:00Z'

const server = {
  transport: z
    .enum(['direct', 'agent'], { error: transportText })
    .describe('`direct`: the gateway connects to `base_url`. `agent`: an agent of the hoster connects to the gateway.'),
  base_url: z.string({ error: urlText }).max(2_048, { error: urlText }).nullish().describe('Required with `direct`.'),
  api_key: z.string({ error: keyText }).max(4_096, { error: keyText }).nullish().describe('Stored encrypted.'),
}
// checkName in src/market/supply/hosters/check-hoster.ts checks which characters these are.
const hosterNameText = 'a text of 1 to 80 characters without control characters'
export const hosterName = z
  .string({ error: hosterNameText })
  .max(80, { error: hosterNameText })
  .regex(PLAIN_TEXT, { error: hosterNameText })
const applicationRequest = z.strictObject({ name: hosterName, ...server }, object)
export const serverRequest = z.strictObject(server, object).meta({ id: 'HosterServer' })
const hosterChoices = ['active', 'paused', 'retired'] as const
export const stateRequest = z
  .strictObject(
    {
      state: z
        .enum(hosterChoices, { error: `one of ${hosterChoices.join(', ')}` })
        .describe('`paused` takes a break, `active` ends it, `retired` leaves for good.'),
      reason: reason.nullish(),
    },
    object,
  )
  .meta({ id: 'HosterStateRequest' })
export const hosterKeyRequest = z
  .strictObject(
    {
      name: text,
      scopes: z.array(z.enum(hosterScopes, { error: scopesText }), { error: scopesText }).min(1, { error: scopesText }),
      expires_at: z.string({ error: timeText }).datetime({ offset: true, error: timeText }).nullish(),
    },
    object,
  )
  .meta({ id: 'HosterKeyRequest' })
const roleText = `one of ${memberRoles.join(', ')}, or null to remove the person`
const keysText = 'revoke or hand_over'
const memberRequest = z.strictObject(
  {
    email,
    role: z.enum(memberRoles, { error: roleText }).nullable(),
    keys: z.enum(['revoke', 'hand_over'], { error: keysText }).optional(),
  },
  object,
)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`.

export function parseApplication(body: Buffer) {
  const { name, ...fields } = parseStrictBody(body, applicationRequest, 'an application')
  return { name, server: serverOf(fields) }
}

export function parseServer(body: Buffer) {
  return serverOf(parseStrictBody(body, serverRequest, 'a server'))
}

export function parseStateRequest(body: Buffer) {
  const { state: to, reason } = parseStrictBody(body, stateRequest, 'a change of the state')
  return { to, reason: reason ?? 'The hoster asked for it.' }
}

export function parseHosterKeyRequest(body: Buffer, nowMs: number) {
  const { name, scopes, expires_at: expires } = parseStrictBody(body, hosterKeyRequest, 'a key')
  const expiresAt = expires === undefined || expires === null ? null : new Date(expires)
  if (expiresAt !== null && expiresAt.getTime() <= nowMs)
    throw new ApiError('invalid_value', { message: `"expires_at" must be ${timeText}.`, param: 'expires_at' })
  return { name, scopes: [...new Set(scopes)], expiresAt }
}

export function parseHosterMember(body: Buffer) {
  const { keys = 'revoke', ...change } = parseStrictBody(body, memberRequest, 'a member')
  return { ...change, keys }
}

function serverOf({ transport, base_url, api_key }: z.infer<typeof serverRequest>) {
  return { transport, baseUrl: base_url ?? null, apiKey: api_key ?? null }
}
