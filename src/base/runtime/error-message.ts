import { getSystemErrorMessage } from 'node:util'

/**
 * Returns the message of an error for the operator. When the clean-up after a failure fails too, `await
 * using` throws a SuppressedError with a message that names neither failure. The result then has both
 * messages, the first failure first.
 */
export function errorMessage(error: unknown): string {
  if (error instanceof SuppressedError) return `${errorMessage(error.suppressed)}\n${errorMessage(error.error)}`
  return error instanceof Error ? error.message : String(error)
}

/** Returns the text of an error of a system call, such as "permission denied", without its code and path. */
export function systemErrorText(error: unknown): string {
  const { errno, message } = error as NodeJS.ErrnoException
  return errno === undefined ? message : getSystemErrorMessage(errno)
}
