import { ApiError } from '../../base/domain/errors.ts'
import type { SignedIn } from '../../identity/people/sessions.ts'

const VALID_MS = 600_000

/**
 * Throws `confirmation_required` unless the person typed the password, or used another factor, in the last 10 minutes.
 */
export function requireConfirmation({ confirmedAt }: SignedIn, nowMs: number): void {
  if (nowMs - confirmedAt.getTime() >= VALID_MS) throw new ApiError('confirmation_required')
}
