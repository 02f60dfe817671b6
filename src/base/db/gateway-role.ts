import pg from 'pg'
import { MIGRATION_LOCK } from './migrate.ts'
import type { DatabaseHandle } from './open-database.ts'
import type { Sql } from './pool.ts'
import { beginPooledSession } from './pooled-session.ts'
import { queryOnce } from './query-once.ts'
import { queryRow } from './query-row.ts'
import { startOf } from './session-settings.ts'

/**
 * Lets the roles of `connection` and `desk` work on the tables of `owner`: see
 * sql/functions/rights. Call it after `migrate`. Does nothing when the role that serves requests owns
 * the tables itself. Any number of processes may call it at once.
 */
export async function grantGatewayRights({
  owner,
  connection,
  desk,
}: Pick<DatabaseHandle, 'owner' | 'connection' | 'desk'>): Promise<void> {
  if (owner === connection) return
  const roleOf = async (login: DatabaseHandle['owner']) =>
    (await queryOnce<{ role: string }>(login, 'SELECT session_user AS role')).role
  const role = await roleOf(connection)
  const deskRole = desk === connection ? role : await roleOf(desk)
  const client = new pg.Client({ ...startOf(owner), application_name: 'switchyard migrate' })
  client.on('error', () => {})
  await client.connect()
  try {
    if (owner.viaPooler) await beginPooledSession(client)
    if ((await queryRow<{ owner: string }>(client, 'SELECT session_user AS owner')).owner === role) return
    // Two sessions that grant rights on the same table at once would fail.
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK])
    await client.query('SELECT grant_gateway_rights($1, $2)', [role, deskRole])
    await client.query('SELECT close_schema()')
  } finally {
    await client.end().catch(() => {})
  }
}

/** True when the role of this connection may rewrite the ledger, because it owns the tables or is a superuser. */
export async function mayRewriteLedger(sql: Sql): Promise<boolean> {
  const { may } = await queryRow<{ may: boolean }>(
    sql,
    `SELECT bool_or(has_table_privilege(name, 'INSERT, UPDATE, DELETE, TRUNCATE')) AS may
     FROM unnest(money_tables()) AS name`,
  )
  return may
}

/** True when the role of this connection may also do what only the desk does: there is no separate desk role. */
export async function mayActAsDesk(sql: Sql): Promise<boolean> {
  const { may } = await queryRow<{ may: boolean }>(
    sql,
    `SELECT bool_or(has_function_privilege(oid, 'EXECUTE')) AS may FROM pg_proc
      WHERE pronamespace = current_schema()::regnamespace AND proname = ANY (desk_functions())`,
  )
  return may
}

/**
 * True when the role of this connection may create functions next to those of the owner, and so replace what they call.
 * Before PostgreSQL 15 that is the default in a schema `public` that the owner of the tables does not own.
 */
export async function mayReplaceFunctions(sql: Sql): Promise<boolean> {
  const { may } = await queryRow<{ may: boolean }>(
    sql,
    `SELECT has_schema_privilege(current_schema(), 'CREATE') AS may`,
  )
  return may
}
