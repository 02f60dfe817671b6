import pg from 'pg'
import { MIGRATION_LOCK } from './migrate.ts'
import type { Connection } from './open-database.ts'
import type { Sql } from './pool.ts'
import { queryOnce } from './query-once.ts'
import { sessionSettings } from './session-settings.ts'

/**
 * Lets the role of `gateway` serve requests on the tables of `owner`: it may read all tables, but change the money only
 * through the functions of migrations/0006_gateway_role.sql. Call it after `migrate`. Does nothing when the role
 * owns the tables itself. Any number of processes may call it at once.
 */
export async function grantGatewayRights(owner: Connection, gateway: Connection): Promise<void> {
  if (owner === gateway) return
  const { role } = await queryOnce<{ role: string }>(gateway, 'SELECT session_user AS role')
  const client = new pg.Client({ ...sessionSettings, ...owner, application_name: 'switchyard migrate' })
  client.on('error', () => {})
  await client.connect()
  try {
    if ((await client.query<{ owner: string }>('SELECT session_user AS owner')).rows[0]!.owner === role) return
    // Two sessions that grant rights on the same table at once would fail.
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK])
    await client.query('SELECT grant_gateway_rights($1)', [role])
  } finally {
    await client.end().catch(() => {})
  }
}

/** True when the role of this connection may rewrite the ledger, because it owns the tables or is a superuser. */
export async function mayRewriteLedger(sql: Sql): Promise<boolean> {
  const { rows } = await sql.query<{ may: boolean }>(
    `SELECT bool_or(has_table_privilege(name, 'INSERT, UPDATE, DELETE, TRUNCATE')) AS may
     FROM unnest(money_tables()) AS name`,
  )
  return rows[0]!.may
}
