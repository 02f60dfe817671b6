import type { Sql } from '../db/pool.ts'
import { ApiError } from '../domain/errors.ts'

/** Wraps `sql` for reports: every failure becomes `database_unavailable`. */
export function reportSql(sql: Sql): Sql {
  return { query: (statement, values) => sql.query<never>(statement, values).catch(refuseReport) }
}

/** Throws `database_unavailable` for a report that cannot be read. */
export function refuseReport(internal: unknown): never {
  throw new ApiError('database_unavailable', {
    message: 'The database does not answer, so the report cannot be read. Retry later.',
    internal,
  })
}
