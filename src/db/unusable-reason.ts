import pg from 'pg'
import { sessionSettings } from './session-settings.ts'

/** Older ones know no `idle_session_timeout`. On 14, 15, 17 and 18 the migrations, chats, reports and the audit were tried. */
const OLDEST_MAJOR = 14

/**
 * Looks at a PostgreSQL that somebody else runs, and changes nothing. Returns a sentence for the operator where it cannot do. Rejects with pg's error where
 * there is no connection to it.
 */
export async function unusableReason(connection: pg.ClientConfig): Promise<string | undefined> {
  // As plain as can be: what is too old, or no PostgreSQL itself, refuses the settings of our sessions.
  const { version, major, database, encoding } = await askOnce<ServerFacts>(connection, SERVER_FACTS)
  if (major < OLDEST_MAJOR)
    return `PostgreSQL ${version} is too old: Switchyard needs version ${OLDEST_MAJOR} or newer.`
  if (encoding !== 'UTF8')
    return `The database ${database} has the encoding ${encoding}, which cannot hold every text. Make one that can: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0`
  const session = await sessionFacts(connection)
  if (!session.arrived)
    return 'Between here and PostgreSQL is a pooler, such as PgBouncer, which keeps the settings of sessions from it. Switchyard needs sessions of its own, whatever mode the pooler is in, and pools them itself: set DATABASE_URL to PostgreSQL itself.'
  if (!['0', null].includes(session.transaction_timeout))
    return `transaction_timeout is ${session.transaction_timeout} for the role ${session.role}, and a migration or an audit takes as long as it takes. Switch it off: ALTER ROLE "${session.role}" IN DATABASE "${database}" SET transaction_timeout = 0`
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
 * A pooler refuses settings that a connection begins with, or is told to ignore them. Then nobody waits for a lock for a limited time; and one that lends its
 * sessions by the transaction keeps the lock of the migrations for ever, so that every later start waits.
 */
async function sessionFacts(connection: pg.ClientConfig): Promise<SessionFacts> {
  // Not of `options`, which a DATABASE_URL may replace.
  const asked = { ...sessionSettings, ...connection, lock_timeout: 2000 }
  try {
    return await askOnce<SessionFacts>(asked, SESSION_FACTS)
  } catch (error) {
    if (!(error instanceof pg.DatabaseError && error.code === PROTOCOL_VIOLATION)) throw error
    return { arrived: false, role: '', transaction_timeout: null }
  }
}

interface SessionFacts {
  /** Whether PostgreSQL knows what the connection began with. */
  readonly arrived: boolean
  readonly role: string
  /** Null before PostgreSQL 17, where nobody could set it to 0 like the other limits. */
  readonly transaction_timeout: string | null
}

const SESSION_FACTS = `
  SELECT (SELECT source = 'client' FROM pg_settings WHERE name = 'lock_timeout') AS arrived, session_user AS role,
         current_setting('transaction_timeout', true) AS transaction_timeout`
const PROTOCOL_VIOLATION = '08P01'

async function askOnce<Row extends object>(connection: pg.ClientConfig, text: string): Promise<Row> {
  const client = new pg.Client({ ...connection, connectionTimeoutMillis: 10_000, application_name: 'switchyard open' })
  client.on('error', () => {})
  try {
    await client.connect()
    return (await client.query<Row>(text)).rows[0]!
  } finally {
    await client.end().catch(() => {})
  }
}
