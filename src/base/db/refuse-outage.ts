import { ApiError } from '../domain/errors.ts'
import { faultOf } from './database-fault.ts'

/**
 * Ends a call of a client after its statement failed. An outage becomes `database_unavailable`, with `message` instead
 * of the text of the table. An ApiError, and data that PostgreSQL rejects, are thrown as they are: the latter is a bug,
 * and the client gets `internal_error`.
 */
export function refuseOutage(thrown: unknown, message?: string): never {
  if (thrown instanceof ApiError || faultOf(thrown) === 'rejected') throw thrown
  throw new ApiError('database_unavailable', { ...(message !== undefined && { message }), internal: thrown })
}
