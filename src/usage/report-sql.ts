import type { Sql } from '../db/pool.ts'
import { ApiError } from '../domain/errors.ts'

/** For reading reports: whatever goes wrong is `database_unavailable`. */
export function reportSql(sql: Sql): Sql {
  return { query: (statement, values) => sql.query<never>(statement, values).catch(refuseReport) }
}

/** A report that cannot be read is nobody's fault but the database's. */
export function refuseReport(internal: unknown): never {
  throw new ApiError('database_unavailable', {
    message: 'The database does not answer, so the report cannot be made. Retry later.',
    internal,
  })
}
