import type { Pool, Sql } from '../../base/db/pool.ts'
import { queryRow } from '../../base/db/query-row.ts'
import { errorMessage } from '../../base/runtime/error-message.ts'
import type { CellDatabase } from './move-customer.ts'

export interface PeerDatabase {
  readonly name: string
  /** Of a role of the peer that owns its tables and may replicate. */
  readonly databaseUrl: string
}

/** A peer with open connections. */
export interface OpenPeer extends PeerDatabase, CellDatabase {}

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
 * Names this database, publishes where its keys are served, and subscribes to what the peers publish. A repeat changes only what is
 * missing: it subscribes to peers that did not publish before, and replaces subscriptions that follow nothing. Throws an Error for
 * the operator.
 */
export async function linkCell(pool: Pool, name: string, peers: readonly OpenPeer[]): Promise<LinkedCell> {
  await requireReplication(pool)
  const { isNew } = await queryRow<{ isNew: boolean }>(pool, 'SELECT start_cell($1) AS "isNew"', [name])
  // Only the rows of this cell: those of others would come back to them.
  if (!(await isPublished(pool)))
    await runFormatted(pool, `CREATE PUBLICATION ${PUBLICATION} FOR TABLE cell_key WHERE (cell = %L)`, [name])
  const added: string[] = []
  const waiting: string[] = []
  for (const peer of peers) {
    // Without a connection to a peer that is followed: it may be down.
    const subscription = await readSubscription(pool, name, peer)
    if (subscription.isFollowed) continue
    await requireCell(peer)
    if (!(await isPublished(peer.pool))) waiting.push(peer.name)
    else {
      await subscribe(pool, peer, subscription)
      added.push(peer.name)
    }
  }
  return { isNew, added, waiting }
}

const PUBLICATION = 'switchyard_cell'

async function isPublished(sql: Sql): Promise<boolean> {
  const { rows } = await sql.query('SELECT FROM pg_publication WHERE pubname = $1', [PUBLICATION])
  return rows.length > 0
}

/** Subscribing to another cell under this name would serve its keys from the wrong place. */
async function requireCell({ name, pool }: OpenPeer): Promise<void> {
  const { cell } = await queryRow<{ cell: string | null }>(pool, 'SELECT own_cell() AS cell').catch(
    (error: unknown) => {
      throw new Error(`The database of ${name} cannot be read: ${errorMessage(error)}.`, { cause: error })
    },
  )
  if (cell !== null && cell !== name) throw new Error(`The database_url of ${name} leads to the cell ${cell}.`)
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

interface Subscription {
  readonly name: string
  readonly exists: boolean
  readonly isFollowed: boolean
}

/** A subscription that is older than the publication has no table, and never gets one. One that is not enabled was not finished. */
async function readSubscription(pool: Pool, name: string, peer: PeerDatabase): Promise<Subscription> {
  const subscription = subscriptionName(name, peer.name)
  const { rows } = await pool.query<{ isFollowed: boolean }>(
    `SELECT s.subenabled AND EXISTS (SELECT FROM pg_subscription_rel WHERE srsubid = s.oid) AS "isFollowed"
     FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE subname = $1 AND datname = current_database()`,
    [subscription],
  )
  return { name: subscription, exists: rows.length > 0, isFollowed: rows[0]?.isFollowed ?? false }
}

/** Runs outside of a transaction: PostgreSQL requires that for a slot at another server. */
async function subscribe(pool: Pool, peer: PeerDatabase, { name, exists }: Subscription): Promise<void> {
  if (exists) await runFormatted(pool, 'DROP SUBSCRIPTION %I', [name])
  await runFormatted(pool, `CREATE SUBSCRIPTION %I CONNECTION %L PUBLICATION ${PUBLICATION} WITH (enabled = false)`, [
    name,
    peer.databaseUrl,
  ])
  // The first copy would collide with what an earlier subscription brought. Not before there is a new one: without rows, the keys of
  // the peer are refused here.
  await pool.query('DELETE FROM cell_key WHERE cell = $1', [peer.name])
  await runFormatted(pool, 'ALTER SUBSCRIPTION %I ENABLE', [name])
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
