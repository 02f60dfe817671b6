import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { sayRefusal } from '../../base/domain/refusals.ts'
import { isEmail } from '../../base/runtime/email.ts'
import { PLAIN_TEXT } from '../../base/runtime/plain-text.ts'

// The fields of bodies of /console/api. Each `error` text completes the sentence "`param` must be ...".

/** In characters. OWASP ASVS 5.0 requires 8 and recommends 15. */
const PASSWORD_CHARACTERS_MIN = 12
/** In UTF-8. The limit bounds the work of hashing. */
const PASSWORD_BYTES_MAX = 1_024

export const object = { error: 'a JSON object' }
export const email = z.string({ error: 'an e-mail address' }).trim().refine(isEmail, { error: 'an e-mail address' })
const nameText = 'a text of at most 200 characters without control characters or text direction marks'
export const name = z
  .string({ error: nameText })
  .trim()
  .max(200, { error: nameText })
  .refine(isName, { error: nameText })
/** Checked apart, with `typedPassword`: the text of an error shows what was sent. */
export const password = z.unknown()
const codeText = 'the code of the authenticator app, or a recovery code'
export const code = z.string({ error: codeText }).trim().min(1, { error: codeText }).max(100, { error: codeText })
const tokenText = 'the text after # in the link'
export const token = z.string({ error: tokenText }).max(200, { error: tokenText })

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`, with the `param` at fault.

/** Throws unless the password is long enough to be set. */
export function requireGoodPassword(password: string, param = 'password'): void {
  if ([...password.normalize('NFC')].length >= PASSWORD_CHARACTERS_MIN) return
  throw new ApiError('invalid_value', {
    message: sayRefusal('refusal.password_short', { count: PASSWORD_CHARACTERS_MIN }),
    param,
  })
}

/** Returns a password that may be set. */
export function newPassword(value: unknown, param: string): string {
  const password = typedPassword(value, param)
  requireGoodPassword(password, param)
  return password
}

/** Returns a password as typed. */
export function typedPassword(value: unknown, param: string): string {
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
