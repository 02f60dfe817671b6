import pg from 'pg'
import { queryOnce } from './query-once.ts'
import { sessionSettings } from './session-settings.ts'

/** Older versions lack `idle_session_timeout`. `npm run test:postgres` tests this one and all later ones. */
const OLDEST_MAJOR = 14

/**
 * Checks whether Switchyard can use a PostgreSQL that the operator runs, without changing anything. Returns a
 * message for the operator when it cannot, else undefined. `variable` names the setting that the connection comes
 * from. Rejects with pg's error when it cannot connect.
 */
export async function unusableReason(
  connection: pg.ClientConfig,
  variable = 'DATABASE_URL',
): Promise<string | undefined> {
  // Connect without our session settings: a PostgreSQL that is too old, or a pooler, may refuse them.
  const { version, major, database, encoding } = await queryOnce<ServerFacts>(connection, SERVER_FACTS)
  if (major < OLDEST_MAJOR)
    return `PostgreSQL ${version} is too old: Switchyard needs version ${OLDEST_MAJOR} or newer.`
  if (encoding !== 'UTF8')
    return `The database ${database} has the encoding ${encoding}, which cannot store every text. Create a UTF8 database: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0`
  const session = await sessionFacts(connection)
  if (!session.arrived)
    return `${variable} points to a pooler, such as PgBouncer, that does not pass on session settings. Switchyard pools its own connections and works with no pooler, in any mode: set ${variable} to the address of PostgreSQL itself.`
  if (!['0', null].includes(session.transaction_timeout))
    return `transaction_timeout is ${session.transaction_timeout} for the role ${session.role}, but a migration or an audit may take longer. Switch it off: ALTER ROLE "${session.role}" IN DATABASE "${database}" SET transaction_timeout = 0`
  return undefined
}

interface ServerFacts {
  readonly version: string
  readonly major: number
  readonly database: string
  readonly encoding: string
}

const SERVER_FACTS = `
  SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int / 10000 AS major,
         current_database() AS database, current_setting('server_encoding') AS encoding`

/**
 * Detects a pooler: it refuses the settings that a connection starts with, or is configured to ignore them.
 * Without those settings, waits for locks have no limit. A pooler that assigns sessions per transaction would
 * also keep the migration lock, so every later start would wait for it forever.
 */
async function sessionFacts(connection: pg.ClientConfig): Promise<SessionFacts> {
  // A separate setting, because a DATABASE_URL may replace `options`.
  const withSettings = { ...sessionSettings, ...connection, lock_timeout: 2000 }
  try {
    return await queryOnce<SessionFacts>(withSettings, SESSION_FACTS)
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && error.code === PROTOCOL_VIOLATION)) throw error
    return { arrived: false, role: '', transaction_timeout: null }
  }
}

interface SessionFacts {
  /** Whether the settings of the connection reached PostgreSQL. */
  readonly arrived: boolean
  readonly role: string
  /**
   * Null before PostgreSQL 17, which introduced it. The session settings cannot set it, because older
   * versions refuse the name.
   */
  readonly transaction_timeout: string | null
}

const SESSION_FACTS = `
  SELECT (SELECT source = 'client' FROM pg_settings WHERE name = 'lock_timeout') AS arrived, session_user AS role,
         current_setting('transaction_timeout', true) AS transaction_timeout`
const PROTOCOL_VIOLATION = '08P01'
