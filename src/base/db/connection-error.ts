import { codeOf, faultOf } from './database-fault.ts'

/** PostgreSQL's code for "too many connections". */
export const TOO_MANY_CONNECTIONS = '53300'

/** Whether PostgreSQL is starting, stopping or crashing, and will soon accept connections or be gone. */
export function isRestarting(error: unknown): boolean {
  const code = codeOf(error)
  if (code === undefined) return error instanceof Error && error.message.startsWith('Connection terminated')
  return faultOf(error) === 'restarting' || code === 'ECONNRESET' || code === 'EPIPE'
}

/** Explains to the operator why a connection failed. Never repeats the URL, which holds a password. */
export function connectionErrorMessage(error: unknown): string {
  switch (codeOf(error)) {
    case 'ECONNREFUSED':
      return 'PostgreSQL is not listening at that address.'
    case 'ERR_INVALID_URL':
      return 'The URL is not valid. Percent-encode the password (# is %23, / is %2F), and name only one host.'
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return "The database server's host name does not resolve."
    case '28P01':
    case '28000':
      return 'PostgreSQL refused the user name or password.'
    case '3D000':
      return 'PostgreSQL has no database with that name.'
    case TOO_MANY_CONNECTIONS:
      return 'PostgreSQL has no free connection left.'
    default:
      return `Cannot connect to PostgreSQL: ${error instanceof Error ? error.message : String(error)}.`
  }
}
