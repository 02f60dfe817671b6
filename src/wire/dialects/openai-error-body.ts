import type { ApiError } from '../../base/domain/errors.ts'

/**
 * Renders an ApiError as OpenAI's error object in JSON. Every SDK reads message, type, param and code and
 * keeps other fields.
 */
export function errorBody({ message, messageCodes, row, param, code, facts }: ApiError): string {
  const coded = messageCodes.length > 0 && { message_codes: messageCodes }
  return JSON.stringify({ error: { message, type: row.type, param, code, ...coded, ...facts } })
}
