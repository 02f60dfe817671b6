import { z } from 'zod'
import { ApiError } from '../../base/domain/errors.ts'
import { object } from './console-body.ts'
import { parseStrictBody } from './strict-body.ts'

// Whether a customer shares its requests for audits of hosters.

export const requestSharing = z
  .object({
    is_on: z.boolean().describe('Some requests may be sent once more, to another server of the model.'),
  })
  .meta({ id: 'RequestSharing' })
/** @public The console imports it. */
export type RequestSharingShown = z.infer<typeof requestSharing>

const request = z.strictObject({ consent: z.boolean({ error: 'true' }) }, object)

/** Throws ApiError `invalid_json`, `missing_parameter` or `invalid_value` unless the body consents. */
export function requireSharingConsent(body: Buffer): void {
  if (parseStrictBody(body, request, 'consent to share requests').consent) return
  throw new ApiError('invalid_value', {
    param: 'consent',
    message: 'Sharing requests needs consent: without it, no request is sent to another server.',
  })
}
