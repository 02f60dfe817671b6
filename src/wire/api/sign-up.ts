import { z } from 'zod'
import { email, name, newPassword, object, password, token } from './console-body.ts'
import { parseStrictBody } from './strict-body.ts'

/** What the pages outside need to know: the answer of `GET /console/api/config`. */
export const consoleConfig = z
  .object({
    sign_up: z.enum(['closed', 'invite', 'open']),
    has_mail: z.boolean().describe('Whether a forgotten password can be set by mail.'),
    base_url: z.string().nullable().describe('The URL of the API without `/v1`. Null: that of the page.'),
    oidc_providers: z.array(z.object({ id: z.string(), name: z.string() })),
    has_passkeys: z.boolean().describe('Whether passkeys work here: they need a domain name.'),
  })
  .meta({ id: 'ConsoleConfig' })
export type ConsoleConfig = z.infer<typeof consoleConfig>

/** The same for every address. */
export const mailed = z.object({ mailed: z.literal(true) })
export const signUpShown = z.object({ email: z.string() })
export const passwordSet = z.object({ reset: z.literal(true) })

const emailRequest = z.strictObject({ email }, object)
const tokenRequest = z.strictObject({ token }, object)
const verifyRequest = z.strictObject({ token, name: name.nullish(), password }, object)
const resetRequest = z.strictObject({ token, password }, object)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`.

export function parseEmail(body: Buffer): string {
  return parseStrictBody(body, emailRequest, 'a request for a mail').email
}

export function parseToken(body: Buffer): string {
  return parseStrictBody(body, tokenRequest, 'a link').token
}

export function parseVerify(body: Buffer): { token: string; name: string; password: string } {
  const { token, name, password } = parseStrictBody(body, verifyRequest, 'a sign-up')
  return { token, name: name ?? '', password: newPassword(password, 'password') }
}

export function parseReset(body: Buffer): { token: string; password: string } {
  const { token, password } = parseStrictBody(body, resetRequest, 'a new password')
  return { token, password: newPassword(password, 'password') }
}
