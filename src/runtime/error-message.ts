/**
 * What an error says to the operator. Where cleaning up after a failure failed as well, `await using` throws a SuppressedError, whose own message says
 * neither; here the first failure comes first.
 */
export function errorMessage(error: unknown): string {
  if (error instanceof SuppressedError) return `${errorMessage(error.suppressed)}\n${errorMessage(error.error)}`
  return error instanceof Error ? error.message : String(error)
}
