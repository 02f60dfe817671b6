import type { AuthenticationResponseJSON } from '@simplewebauthn/server'
import { z } from 'zod'
import { code, object } from './console-body.ts'
import { passkeyField } from './passkeys.ts'
import { parseStrictBody } from './strict-body.ts'

export const oidcStarted = z
  .object({ url: z.string().describe('The page of the service.') })
  .meta({ id: 'OidcStarted' })
/** @public The console imports it. */
export type OidcStarted = z.infer<typeof oidcStarted>

export const oidcFinished = z
  .object({
    outcome: z.enum(['entered', 'confirmed', 'linked', 'factor']),
    param: z.string().nullable().describe('Which second factor is missing: `code` or `passkey`.'),
    return_to: z.string().describe('A path of the console.'),
  })
  .meta({ id: 'OidcFinished' })
/** @public The console imports it. */
export type OidcFinished = z.infer<typeof oidcFinished>

export const identity = z
  .object({
    id: z.string(),
    provider: z.string().describe('The id of the service in the configuration.'),
    email: z.string().nullable(),
    created_at: z.string(),
    last_used_at: z.string(),
  })
  .meta({ id: 'Identity' })
/** @public The console imports it. */
export type IdentityShown = z.infer<typeof identity>

export const unlinkedIdentity = z.object({ unlinked: z.literal(true) })

const PATH_MAX = 2_000
const pathText = 'a path of this server: one slash, then neither a slash nor a backslash'
const returnTo = z
  .string({ error: pathText })
  .max(PATH_MAX, { error: pathText })
  .regex(/^\/(?![/\\])[\x20-\x5b\x5d-\x7e]*$/, { error: pathText })
const providerText = 'the id of a service'
const inviteText = 'the secret of an invitation: the part of its link after #'
const startRequest = z.strictObject(
  {
    provider: z.string({ error: providerText }).max(64, { error: providerText }),
    return_to: returnTo.nullish(),
    invite: z.string({ error: inviteText }).max(64, { error: inviteText }).nullish(),
  },
  object,
)
const queryText = 'the query that the service added to the address'
const finishRequest = z.strictObject({ query: z.string({ error: queryText }).max(8_192, { error: queryText }) }, object)
const factorRequest = z.strictObject({ code: code.nullish(), passkey: passkeyField.nullish() }, object)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`.

export function parseOidcStart(body: Buffer): { provider: string; returnTo: string; inviteToken: string | null } {
  const { provider, return_to, invite } = parseStrictBody(body, startRequest, 'a sign-in')
  return { provider, returnTo: return_to ?? '/', inviteToken: invite ?? null }
}

export function parseOidcFinish(body: Buffer): string {
  return parseStrictBody(body, finishRequest, 'an answer of a service').query.replace(/^\?/, '')
}

export function parseOidcFactor(body: Buffer): { code: string | null; passkey: AuthenticationResponseJSON | null } {
  const { code, passkey } = parseStrictBody(body, factorRequest, 'a second factor')
  return { code: code ?? null, passkey: passkey ?? null }
}
