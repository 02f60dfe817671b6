import type { Pool, Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'

export interface PeerDatabase {
  readonly name: string
  /** Of a role of the peer that owns its tables and may replicate. */
  readonly databaseUrl: string
}

export interface LinkedCell {
  /** Whether the database got its name now. */
  readonly isNew: boolean
  /** The peers to which a subscription began now. */
  readonly added: readonly string[]
}

/** The row filter of a publication needs this version. */
const SERVER_VERSION_MIN = 150_000

/**
 * Names this database, publishes where its keys are served, and subscribes to what the peers publish. What exists stays, so a
 * repeat changes nothing. Throws an Error for the operator.
 */
export async function linkCell(pool: Pool, name: string, peers: readonly PeerDatabase[]): Promise<LinkedCell> {
  await requireReplication(pool)
  const { isNew } = await queryRow<{ isNew: boolean }>(pool, 'SELECT start_cell($1) AS "isNew"', [name])
  const { rows: publications } = await pool.query('SELECT FROM pg_publication WHERE pubname = $1', [PUBLICATION])
  // Only the rows of this cell: those of others would come back to them.
  if (publications.length === 0)
    await runFormatted(pool, `CREATE PUBLICATION ${PUBLICATION} FOR TABLE cell_key WHERE (cell = %L)`, [name])
  const added: string[] = []
  for (const peer of peers) if (await subscribe(pool, name, peer)) added.push(peer.name)
  return { isNew, added }
}

const PUBLICATION = 'switchyard_cell'

async function requireReplication(sql: Sql): Promise<void> {
  const { version, level } = await queryRow<{ version: number; level: string }>(
    sql,
    "SELECT current_setting('server_version_num')::int AS version, current_setting('wal_level') AS level",
  )
  if (version < SERVER_VERSION_MIN) throw new Error('Cells need PostgreSQL 15 or later.')
  if (level !== 'logical')
    throw new Error(`wal_level of PostgreSQL is ${level}. Set it to logical in postgresql.conf and restart PostgreSQL.`)
}

/** Returns whether the subscription is new. Outside of a transaction, as PostgreSQL demands: it makes a slot at the peer. */
async function subscribe(pool: Pool, name: string, peer: PeerDatabase): Promise<boolean> {
  const subscription = subscriptionName(name, peer.name)
  const { rows } = await pool.query(
    'SELECT FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE subname = $1 AND datname = current_database()',
    [subscription],
  )
  if (rows.length > 0) return false
  await runFormatted(pool, `CREATE SUBSCRIPTION %I CONNECTION %L PUBLICATION ${PUBLICATION}`, [
    subscription,
    peer.databaseUrl,
  ])
  return true
}

/** The name of the slot at the peer too, where each cell has one. */
function subscriptionName(from: string, to: string): string {
  return `switchyard_${to}_to_${from}`.replaceAll('-', '_')
}

/** Statements like these take no parameters. */
async function runFormatted(pool: Pool, format: string, values: readonly string[]): Promise<void> {
  const { statement } = await queryRow<{ statement: string }>(
    pool,
    'SELECT format($1, VARIADIC $2::text[]) AS statement',
    [format, values],
  )
  await pool.query(statement)
}
