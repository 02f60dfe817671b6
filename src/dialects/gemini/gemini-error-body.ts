import type { ApiError } from '../../domain/errors.ts'

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

/** Renders an ApiError as Google's error object in JSON. The code of the gateway is in `reason`. */
export function geminiErrorBody({ message, row, param, code, facts }: ApiError): string {
  const status = statusNames[row.status] ?? (row.status < 500 ? 'INVALID_ARGUMENT' : 'INTERNAL')
  return JSON.stringify({ error: { code: row.status, message, status, reason: code, param, ...facts } })
}
