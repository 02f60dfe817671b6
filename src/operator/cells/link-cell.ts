import type { Pool, Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import type { CellDatabase } from './move-customer.ts'

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
  /** The peers that publish nothing yet. A later call subscribes to them. */
  readonly waiting: readonly string[]
}

/** The row filter of a publication needs this version. */
const SERVER_VERSION_MIN = 150_000

/**
 * Names this database, publishes where its keys are served, and subscribes to what the peers publish. What exists stays, so a
 * repeat changes nothing. Throws an Error for the operator.
 */
export async function linkCell(
  pool: Pool,
  name: string,
  peers: readonly (PeerDatabase & CellDatabase)[],
): Promise<LinkedCell> {
  await requireReplication(pool)
  const { isNew } = await queryRow<{ isNew: boolean }>(pool, 'SELECT start_cell($1) AS "isNew"', [name])
  // Only the rows of this cell: those of others would come back to them.
  if (!(await isPublished(pool)))
    await runFormatted(pool, `CREATE PUBLICATION ${PUBLICATION} FOR TABLE cell_key WHERE (cell = %L)`, [name])
  const added: string[] = []
  const waiting: string[] = []
  for (const peer of peers) {
    if (!(await isPublished(peer.pool))) waiting.push(peer.name)
    else if (await subscribe(pool, name, peer)) added.push(peer.name)
  }
  return { isNew, added, waiting }
}

const PUBLICATION = 'switchyard_cell'

async function isPublished(sql: Sql): Promise<boolean> {
  const { rows } = await sql.query('SELECT FROM pg_publication WHERE pubname = $1', [PUBLICATION])
  return rows.length > 0
}

async function requireReplication(sql: Sql): Promise<void> {
  const { version, level } = await queryRow<{ version: number; level: string }>(
    sql,
    "SELECT current_setting('server_version_num')::int AS version, current_setting('wal_level') AS level",
  )
  if (version < SERVER_VERSION_MIN) throw new Error('Cells need PostgreSQL 15 or later.')
  if (level !== 'logical')
    throw new Error(`wal_level of PostgreSQL is ${level}. Set it to logical in postgresql.conf and restart PostgreSQL.`)
}

/**
 * Returns whether the subscription is new. PostgreSQL reads the tables of a publication when it subscribes, so a subscription from
 * before the publication follows nothing, ever: it is made again. Outside of transactions, as PostgreSQL demands for slots of a peer.
 */
async function subscribe(pool: Pool, name: string, peer: PeerDatabase): Promise<boolean> {
  const subscription = subscriptionName(name, peer.name)
  const { rows } = await pool.query<{ hasTable: boolean }>(
    `SELECT EXISTS (SELECT FROM pg_subscription_rel WHERE srsubid = s.oid) AS "hasTable"
     FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE subname = $1 AND datname = current_database()`,
    [subscription],
  )
  const [found] = rows
  if (found?.hasTable) return false
  if (found !== undefined) await runFormatted(pool, 'DROP SUBSCRIPTION %I', [subscription])
  // What an earlier subscription brought would collide with the first copy of this one.
  await pool.query('DELETE FROM cell_key WHERE cell = $1', [peer.name])
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
