import { z } from 'zod'
import { code, object } from './console-body.ts'
import { identity } from './oidc.ts'
import { passkey } from './passkeys.ts'
import { parseStrictBody } from './strict-body.ts'

export const factors = z
  .object({
    has_password: z.boolean(),
    has_totp: z.boolean().describe('Whether the person has an authenticator app.'),
    passkeys: z.array(passkey),
    identities: z.array(identity).describe('The services that the person signs in with.'),
    recovery_codes_left: z.number().int(),
    is_in_use: z.boolean().describe('Whether this session used a second factor.'),
  })
  .meta({ id: 'Factors' })
/** @public The console imports it. */
export type FactorsShown = z.infer<typeof factors>

export const totpStart = z
  .object({
    secret: z.string().describe('To type into an app.'),
    uri: z.string().describe('`otpauth:`, for a QR code.'),
  })
  .meta({ id: 'TotpStart' })
/** @public The console imports it. */
export type TotpStart = z.infer<typeof totpStart>

export const recoveryCodes = z
  .object({ recovery_codes: z.array(z.string()).describe('Shown this once.') })
  .meta({ id: 'RecoveryCodes' })
/** @public The console imports it. */
export type RecoveryCodes = z.infer<typeof recoveryCodes>

export const removedFactor = z.object({ removed: z.literal(true) })

const codeRequest = z.strictObject({ code }, object)

/** Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value`. */
export function parseCode(body: Buffer): string {
  return parseStrictBody(body, codeRequest, 'a code').code
}
