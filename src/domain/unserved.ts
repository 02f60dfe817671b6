import { ApiError, type ErrorCode } from './errors.ts'
import type { Attempt } from './handoff.ts'

/** Dispatch ended without an answer. Carries the attempts, because the usage row records them and the caller must not see them. */
export class Unserved extends ApiError {
  readonly attempts: readonly Attempt[]
  /** Error texts of the servers that were tried; see UpstreamFailure. */
  readonly upstreamMessages: readonly string[]

  constructor(
    code: ErrorCode,
    attempts: readonly Attempt[],
    detail: {
      message?: string | undefined
      param?: string | undefined
      retryAfterS?: number | undefined
      reasons?: readonly string[]
      upstreamMessages?: readonly string[]
    } = {},
  ) {
    super(code, { ...detail, internal: { attempts, reasons: detail.reasons } })
    this.name = 'Unserved'
    this.attempts = attempts
    this.upstreamMessages = detail.upstreamMessages ?? []
  }
}
