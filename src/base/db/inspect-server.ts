import pg from 'pg'
import type { Connection } from './connection.ts'
import { poolerFault } from './pooled-session.ts'
import { queryOnce } from './query-once.ts'
import { sessionSettings } from './session-settings.ts'

/** Older versions lack `idle_session_timeout`. `npm run test:postgres` tests this one and all later ones. */
const OLDEST_MAJOR = 14

export interface InspectedServer {
  /** A message for the operator when Switchyard cannot use it, else undefined. */
  readonly problem: string | undefined
  /** Whether a pooler is in between. */
  readonly viaPooler: boolean
}

/**
 * Checks whether Switchyard can use a PostgreSQL that the operator runs, without changing anything. `variable` names
 * the setting that the connection comes from. Rejects with pg's error when it cannot connect.
 */
export async function inspectServer(connection: Connection, variable = 'DATABASE_URL'): Promise<InspectedServer> {
  // Connect without our session settings: a PostgreSQL that is too old, or a pooler, may refuse them.
  const server = await queryOnce<ServerFacts>(connection, SERVER_FACTS)
  const direct = problemOf(server)
  if (direct !== undefined) return { problem: direct, viaPooler: false }
  const viaPooler = !(await settingsArrive(connection))
  const fault = viaPooler ? await poolerFault(connection) : undefined
  const problem =
    fault === undefined
      ? undefined
      : `${variable} points to a pooler, such as PgBouncer, that ${fault}; or set ${variable} to the address of PostgreSQL itself, since Switchyard pools its own connections.`
  return { problem, viaPooler }
}

function problemOf({ version, major, database, encoding, role, transactionTimeout }: ServerFacts): string | undefined {
  if (major < OLDEST_MAJOR)
    return `PostgreSQL ${version} is too old: Switchyard needs version ${OLDEST_MAJOR} or newer.`
  if (encoding !== 'UTF8')
    return `The database ${database} has the encoding ${encoding}, which cannot store every text. Create a UTF8 database: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0`
  if (!['0', null].includes(transactionTimeout))
    return `transaction_timeout is ${transactionTimeout} for the role ${role}, but a migration or an audit may take longer. Switch it off: ALTER ROLE "${role}" IN DATABASE "${database}" SET transaction_timeout = 0`
  return undefined
}

interface ServerFacts {
  readonly version: string
  readonly major: number
  readonly database: string
  readonly encoding: string
  readonly role: string
  /**
   * Null before PostgreSQL 17, which introduced it. The session settings cannot set it, because older
   * versions refuse the name.
   */
  readonly transactionTimeout: string | null
}

const SERVER_FACTS = `
  SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int / 10000 AS major,
         current_database() AS database, current_setting('server_encoding') AS encoding, session_user AS role,
         current_setting('transaction_timeout', true) AS "transactionTimeout"`

/**
 * Whether PostgreSQL gets the settings that a connection starts with. A pooler refuses them, or is configured to ignore
 * them.
 */
async function settingsArrive(connection: Connection): Promise<boolean> {
  // A separate setting, because a DATABASE_URL may replace `options`.
  const withSettings = { ...sessionSettings, ...connection, lock_timeout: 2000 }
  try {
    return (await queryOnce<{ arrived: boolean }>(withSettings, SETTINGS_ARRIVE)).arrived
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && error.code === PROTOCOL_VIOLATION)) throw error
    return false
  }
}

const SETTINGS_ARRIVE = `SELECT source = 'client' AS arrived FROM pg_settings WHERE name = 'lock_timeout'`
const PROTOCOL_VIOLATION = '08P01'
