import { ApiError, type ErrorCode } from './errors.ts'
import type { Attempt, Outcome } from './handoff.ts'

/** Dispatch ended without an answer. Carries the attempts, because the usage row records them and the caller must not see them. */
export class Unserved extends ApiError {
  readonly outcome: Extract<Outcome, 'client_gone' | 'refused_upstream' | 'unserved'>
  readonly attempts: readonly Attempt[]

  constructor(
    outcome: Unserved['outcome'],
    code: ErrorCode,
    attempts: readonly Attempt[],
    detail: { message?: string | undefined; param?: string | undefined; retryAfterS?: number | undefined } = {},
  ) {
    super(code, { ...detail, internal: { attempts } })
    this.name = 'Unserved'
    this.outcome = outcome
    this.attempts = attempts
  }
}
