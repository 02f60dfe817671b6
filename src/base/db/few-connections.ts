import type { Sql } from './pool.ts'
import { queryRow } from './query-row.ts'

/**
 * Returns how many connections `nodes` on this machine may open at once. Besides its two pools, each node uses two for
 * heartbeats, three for jobs, two for the audit, four for the desk and three to export and erase personal data. Four more are
 * reserved for the primary, CLI commands and an operator's own session.
 */
export function connectionsNeeded(
  { moneyConnections, generalConnections }: { moneyConnections: number; generalConnections: number },
  nodes: number,
): number {
  return nodes * (moneyConnections + generalConnections + 14) + 4
}

/**
 * Warns when PostgreSQL, the database or the role allows fewer connections than `needed`: under load, requests
 * would be refused or a node could not start.
 */
export async function warnOfFewConnections(
  sql: Sql,
  needed: number,
  log: { warn(facts: object, message: string): void },
): Promise<void> {
  const { server, database, role } = await queryRow<{ server: number; database: number | null; role: number | null }>(
    sql,
    ALLOWED,
  )
  const allowed = Math.min(server, database ?? server, role ?? server)
  if (allowed >= needed) return
  log.warn(
    { allowed, needed },
    `${allowed === role ? 'the role' : allowed === database ? 'the database' : 'PostgreSQL'} allows fewer connections than this machine may need; raise its ${allowed === server ? 'max_connections' : 'CONNECTION LIMIT'}, or lower postgres.money_connections and postgres.general_connections`,
  )
}

// Excludes the connections reserved for superusers and, since PostgreSQL 16, for other roles.
const ALLOWED = `
  SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
           - coalesce(current_setting('reserved_connections', true)::int, 0) AS server,
         (SELECT nullif(datconnlimit, -1) FROM pg_database WHERE datname = current_database()) AS database,
         (SELECT nullif(rolconnlimit, -1) FROM pg_roles WHERE rolname = session_user) AS role`
