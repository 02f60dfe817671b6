import type { Sql } from '../../base/db/pool.ts'
import { refuseOutage } from '../../base/db/refuse-outage.ts'

/** Wraps `sql` for reports: an outage becomes `database_unavailable`. */
export function reportSql(sql: Sql): Sql {
  return { query: (statement, values) => sql.query<never>(statement, values).catch(refuseReport) }
}

/** Throws what the client of a report that cannot be read gets. */
export function refuseReport(thrown: unknown): never {
  refuseOutage(thrown, 'The database does not answer, so the report cannot be read. Retry later.')
}
