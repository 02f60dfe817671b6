import type { ApiError } from '../../../base/domain/errors.ts'
import { errorBody } from '../openai-error-body.ts'

/** The type of an error at which Codex stops. */
export const USAGE_LIMIT_REACHED = 'usage_limit_reached'

/**
 * Renders an ApiError as OpenAI's error object in JSON. For a daily limit it has the type and `resets_at` (Unix
 * seconds) with which Codex stops at once and shows the time; it sends any other 429 six times.
 */
export function responsesErrorBody(error: ApiError): string {
  if (error.code !== 'daily_limit_exceeded') return errorBody(error)
  const { message, param, code, facts } = error
  const resetAt = facts?.reset_at
  const resetsAt = typeof resetAt === 'string' ? { resets_at: Math.ceil(Date.parse(resetAt) / 1000) } : {}
  return JSON.stringify({ error: { message, type: USAGE_LIMIT_REACHED, param, code, ...facts, ...resetsAt } })
}
