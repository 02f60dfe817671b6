import { getSystemErrorMessage } from 'node:util'

/** Returns the text of an error of a system call, such as "permission denied", without its code and path. */
export function systemErrorText(error: unknown): string {
  const { errno, message } = error as NodeJS.ErrnoException
  return errno === undefined ? message : getSystemErrorMessage(errno)
}
