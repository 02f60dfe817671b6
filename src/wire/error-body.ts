import type { ApiError } from '../domain/errors.ts'

/** OpenAI's error object as JSON text: message, type, param and code are what every SDK reads; it keeps what else is there. */
export function errorBody(error: ApiError): string {
  return JSON.stringify({ error: errorObject(error) })
}

/** What is inside `{"error": ...}`. */
export function errorObject(error: ApiError) {
  return { message: error.message, type: error.row.type, param: error.param, code: error.code, ...error.facts }
}
