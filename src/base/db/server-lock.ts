import pg from 'pg'
import type { Connection } from './open-database.ts'
import { sessionSettings } from './session-settings.ts'

/** Proof that this process is the only server of its database. */
export interface ServerLock {
  release(): Promise<void>
}

/**
 * Makes this process the only server of the database until it exits or releases the lock. Used with the
 * embedded PostgreSQL, where a second server on the same data directory is always a mistake; with
 * DATABASE_URL any number of nodes may serve. Throws an error that names the other server when there is one.
 *
 * @param onLost called once if the connection that holds the lock breaks before `release`
 */
export async function acquireServerLock(
  connection: Connection,
  onLost: (error: Error) => void = () => {},
): Promise<ServerLock> {
  const client = new pg.Client({
    ...sessionSettings,
    ...connection,
    application_name: `switchyard server ${process.pid}`,
  })
  let held = false
  client.on('error', error => {
    if (held) onLost(error)
    held = false
  })
  await client.connect()
  try {
    await lock(client)
  } catch (error) {
    await end(client)
    throw error
  }
  held = true
  return {
    async release() {
      held = false
      await end(client)
    },
  }
}

/** A connection that is broken already has released the lock, so a failure changes nothing. */
const end = (client: pg.Client) => client.end().catch(() => {})

async function lock(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ locked: boolean }>('SELECT pg_try_advisory_lock($1) AS locked', [SERVER_LOCK])
  if (rows[0]?.locked) return
  const holder = await findHolder(client)
  throw new Error(
    `Another Switchyard server${holder} already uses this data directory. Stop it first, or set SWITCHYARD_DATA to a separate directory for this server.`,
  )
}

const SERVER_LOCK = 0x7379_7376

async function findHolder(client: pg.Client): Promise<string> {
  const { rows } = await client.query<{ pid: string; since: string }>(
    `SELECT substring(application_name FROM '^switchyard server (\\d+)$') AS pid,
            to_char(backend_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI "UTC"') AS since
       FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE locktype = 'advisory' AND classid = 0 AND objid = $1 AND granted
        AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
    [SERVER_LOCK],
  )
  const [holder] = rows
  return holder?.pid ? ` (process ${holder.pid}, since ${holder.since})` : ''
}
