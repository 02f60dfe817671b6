import { z } from 'zod'

import { email, name, object, token } from './console-body.ts'
import { parseStrictBody } from './strict-body.ts'

const nameRequest = z.strictObject({ name }, object)
const emailRequest = z.strictObject({ email }, object)
const tokenRequest = z.strictObject({ token }, object)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`.

export function parseName(body: Buffer): string {
  return parseStrictBody(body, nameRequest, 'a change of the name').name
}

export function parseNewEmail(body: Buffer): string {
  return parseStrictBody(body, emailRequest, 'a new address').email
}

export function parseEmailToken(body: Buffer): string {
  return parseStrictBody(body, tokenRequest, 'a link').token
}
