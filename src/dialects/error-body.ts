import type { ApiError } from '../domain/errors.ts'

/** OpenAI's error object as JSON text: message, type, param and code are what every SDK reads; it keeps what else is there. */
export function errorBody({ message, row, param, code, facts }: ApiError): string {
  return JSON.stringify({ error: { message, type: row.type, param, code, ...facts } })
}
