import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { z } from 'zod'
import { name, object } from './console-body.ts'
import { parseStrictBody } from './strict-body.ts'

/** In characters. A credential with a large RSA key has about 1,500. */
const PART_MAX = 8_192

const passkeyText = 'what the browser returned for a passkey'
const part = z.string({ error: passkeyText }).max(PART_MAX, { error: passkeyText })

// Browsers add members every year, so unknown ones are ignored. Only these members are used.
const common = {
  id: part,
  rawId: part,
  type: z.literal('public-key', { error: passkeyText }),
  clientExtensionResults: z.unknown().transform(() => ({})),
}
const passkeyProof = z.object(
  {
    ...common,
    response: z.object(
      { clientDataJSON: part, authenticatorData: part, signature: part, userHandle: part.nullish() },
      { error: passkeyText },
    ),
  },
  { error: passkeyText },
)
const newPasskey = z.object(
  {
    ...common,
    response: z.object(
      {
        clientDataJSON: part,
        attestationObject: part,
        transports: z.array(z.string().max(32)).max(16).nullish(),
      },
      { error: passkeyText },
    ),
  },
  { error: passkeyText },
)

/** The field `passkey` of a sign-in or a confirmation. */
export const passkeyField = passkeyProof.transform(({ response, ...rest }): AuthenticationResponseJSON => {
  const { userHandle, ...others } = response
  return { ...rest, response: { ...others, ...(userHandle && { userHandle }) } }
})

export const passkey = z
  .object({
    id: z.string(),
    name: z.string(),
    created_at: z.string(),
    last_used_at: z.string().nullable().describe('Null: never.'),
  })
  .meta({ id: 'Passkey' })
/** @public The console imports it. */
export type PasskeyShown = z.infer<typeof passkey>

/** What `navigator.credentials` needs, in its JSON form. */
export const passkeyOptions = z.record(z.string(), z.unknown()).meta({ id: 'PasskeyOptions' })

export const addedPasskey = z
  .object({
    recovery_codes: z.array(z.string()).nullable().describe('Shown this once. Null: the earlier ones still work.'),
  })
  .meta({ id: 'AddedPasskey' })
/** @public The console imports it. */
export type AddedPasskey = z.infer<typeof addedPasskey>

export const changedPasskey = z.object({ changed: z.literal(true) })

const signInRequest = z.strictObject({ passkey: passkeyField }, object)
const addRequest = z.strictObject({ passkey: newPasskey, name: name.min(1, { error: 'a name' }) }, object)
const renameRequest = z.strictObject({ name: name.min(1, { error: 'a name' }) }, object)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`.

export function parsePasskey(body: Buffer): AuthenticationResponseJSON {
  return parseStrictBody(body, signInRequest, 'a sign-in with a passkey').passkey
}

export function parseNewPasskey(body: Buffer): { response: RegistrationResponseJSON; name: string } {
  const { passkey, name } = parseStrictBody(body, addRequest, 'a new passkey')
  const { transports, ...others } = passkey.response
  const known = transports ?? undefined
  return { name, response: { ...passkey, response: { ...others, ...(known && { transports: known }) } } }
}

export function parsePasskeyName(body: Buffer): string {
  return parseStrictBody(body, renameRequest, 'a name of a passkey').name
}
