import { z } from 'zod'

import { email, name, object, parseConsoleBody, token } from './console-body.ts'

const nameRequest = z.strictObject({ name }, object)
const emailRequest = z.strictObject({ email }, object)
const tokenRequest = z.strictObject({ token }, object)

// All of these throw ApiError `invalid_json`, `missing_parameter` or `invalid_value`.

export function parseName(body: Buffer): string {
  return parseConsoleBody(body, nameRequest, 'a change of the name').name
}

export function parseNewEmail(body: Buffer): string {
  return parseConsoleBody(body, emailRequest, 'a new address').email
}

export function parseEmailToken(body: Buffer): string {
  return parseConsoleBody(body, tokenRequest, 'a link').token
}
