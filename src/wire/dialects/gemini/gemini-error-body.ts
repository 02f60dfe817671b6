import type { ApiError, ErrorFacts } from '../../../base/domain/errors.ts'

/** Google's names of HTTP statuses. */
const statusNames: Readonly<Record<number, string>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  402: 'FAILED_PRECONDITION',
  403: 'PERMISSION_DENIED',
  404: 'NOT_FOUND',
  409: 'ABORTED',
  413: 'INVALID_ARGUMENT',
  429: 'RESOURCE_EXHAUSTED',
  503: 'UNAVAILABLE',
  504: 'DEADLINE_EXCEEDED',
}

/** The domain of the codes in `reason`. */
const DOMAIN = 'switchyard'

/**
 * Renders an ApiError as Google's error object in JSON. The code of the gateway is the `reason` of the ErrorInfo, and
 * `param` and the facts are in its metadata. Gemini CLI gives up at once if the RetryInfo names more than 5 minutes,
 * as it does at a daily limit.
 */
export function geminiErrorBody({ message, row, param, code, facts, retryAfterS }: ApiError): string {
  const status = statusNames[row.status] ?? (row.status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL')
  const details: object[] = [
    { '@type': typeOf('ErrorInfo'), reason: code, domain: DOMAIN, metadata: metadata(param, facts) },
  ]
  if (retryAfterS !== undefined) details.push({ '@type': typeOf('RetryInfo'), retryDelay: `${retryAfterS}s` })
  return JSON.stringify({ error: { code: row.status, message, status, details } })
}

function typeOf(detail: string): string {
  return `type.googleapis.com/google.rpc.${detail}`
}

/** Google's metadata have only texts. */
function metadata(param: string | null, facts: ErrorFacts): Record<string, string> {
  const entries = Object.entries({ param, ...facts }).filter(([, value]) => value !== null)
  return Object.fromEntries(
    entries.map(([name, value]) => [name, typeof value === 'string' ? value : JSON.stringify(value)]),
  )
}
