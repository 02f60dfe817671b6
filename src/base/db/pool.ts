import pg from 'pg'
import { CountedPool, type PoolUse } from './counted-pool.ts'
import type { Connection } from './open-database.ts'
import { beginPooledSession } from './pooled-session.ts'
import { PrimaryClient } from './primary-client.ts'
import { QueuePool } from './queue-pool.ts'
import { startOf } from './session-settings.ts'

/** Rows come back as objects keyed by column; int8 as bigint, date and numeric as text, timestamptz as Date. */
export interface SqlResult<Row> {
  readonly rows: Row[]
  /** Rows read, inserted, updated or deleted; null for commands that have no count. */
  readonly rowCount: number | null
}

/**
 * A statement with a name is prepared once per connection and then only executed. The name must be unique to
 * its text.
 */
export interface NamedStatement {
  readonly name: string
  readonly text: string
}

/** Runs statements: a pool (each statement on any connection) or one transaction. */
export interface Sql {
  query<Row = Record<string, unknown>>(
    statement: string | NamedStatement,
    values?: readonly unknown[],
  ): Promise<SqlResult<Row>>
}

/** A pool of connections. `pg` is the underlying pg.Pool, which graphile-worker needs. */
export interface Pool extends Sql {
  readonly pg: pg.Pool
  readonly use: PoolUse
  /** Waits for running queries, then closes all connections. Safe to call twice. */
  end(): Promise<void>
}

export interface PoolOptions {
  /** Maximum number of open connections. */
  readonly max: number
  /** Shown in pg_stat_activity. */
  readonly applicationName: string
  /**
   * A statement that runs longer is cancelled (57014), or its connection closed a second later. Default
   * 5,000; 0 means never.
   */
  readonly statementTimeoutMs?: number
  /** A statement that waits longer for a lock fails (55P03). Default 2,000; 0 means never. */
  readonly lockTimeoutMs?: number
  /** How long `query` waits for a free or new connection. Default 5,000; 0 means without limit. */
  readonly connectTimeoutMs?: number
  /** For graphile-worker: a `QueuePool` with node-postgres's standard parsers, int8 as text. Default false. */
  readonly forQueue?: boolean
  /** The user of the operating system at the command line, whom the audit log names. */
  readonly osUser?: string
  /** Called when an idle connection breaks. The pool replaces the connection. */
  readonly onIdleError?: (error: Error) => void
}

/** Creates a pool that opens connections on demand. The defaults fit the short statements that move money. */
export function createPool(connection: Connection, options: PoolOptions): Pool {
  const statementTimeoutMs = options.statementTimeoutMs ?? 5000
  const timeouts = {
    statement_timeout: statementTimeoutMs,
    lock_timeout: options.lockTimeoutMs ?? 2000,
    // A transaction that stays idle for longer loses its connection (25P03).
    idle_in_transaction_session_timeout: 5000,
  }
  const inner = new (options.forQueue ? QueuePool : CountedPool)({
    ...startOf(connection, timeouts),
    max: options.max,
    application_name: options.applicationName,
    // A healthy PostgreSQL has cancelled the statement by then. One that is paused or cut off never answers,
    // so close the connection.
    ...(statementTimeoutMs > 0 && { query_timeout: statementTimeoutMs + 1000 }),
    connectionTimeoutMillis: options.connectTimeoutMs ?? 5000,
    Client: PrimaryClient,
    async onConnect(client) {
      PrimaryClient.requirePrimary(client)
      if (connection.viaPooler) await beginPooledSession(client, timeouts)
      if (options.osUser !== undefined) await nameOsUser(client, options.osUser)
    },
    ...(!options.forQueue && { types: { getTypeParser } }),
  })
  let ended: Promise<void> | undefined
  // Without a listener, an idle connection that breaks would end the process.
  inner.on('error', error => {
    // While the pool ends, PostgreSQL may close a connection first: no error.
    if (!ended) options.onIdleError?.(error)
  })
  // A checked-out connection emits its errors on its client. The caller's statement rejects with the same error.
  inner.on('connect', client => client.on('error', () => {}))
  return {
    pg: inner,
    get use() {
      return inner.use
    },
    query: (statement, values) => run(inner, statement, values),
    end() {
      ended ??= inner.end()
      return ended
    },
  }
}

/** Names the user to `acting_program` on a new connection. */
async function nameOsUser(client: pg.ClientBase, user: string): Promise<void> {
  await client.query("SELECT set_config('switchyard.os_user', $1, false)", [user])
}

/**
 * Wraps a pool for short statements that a client waits for: each rejects when there is no answer after
 * `timeoutMs`, whatever it waited for. A connection that has not answered a second later is closed: it may be
 * dead, and the next statement would wait for it too.
 */
export function withQueryTimeout({ pg: inner }: Pool, timeoutMs: number): Sql {
  return {
    async query<Row>(statement: string | NamedStatement, values?: readonly unknown[]) {
      const late = Promise.withResolvers<never>()
      const rejectLate = () => late.reject(new Error(`no answer within ${timeoutMs} ms`))
      // After a stall of this process the answer may have arrived unread, so let it be read first.
      const timer = setTimeout(() => setImmediate(rejectLate), timeoutMs)
      try {
        return await Promise.race([run<Row>(inner, statement, values, timeoutMs + 1000), late.promise])
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

/**
 * Runs `work` in one transaction: commits when it resolves, rolls back when it throws, and rethrows the
 * error. Also throws when `work` swallowed the error of a statement, because PostgreSQL then answers COMMIT
 * with a rollback.
 *
 * @param cut closes the connection when aborted; the running statement then rejects
 */
export async function transaction<T>(pool: Pool, work: (sql: Sql) => Promise<T>, cut?: AbortSignal): Promise<T> {
  const client = await pool.pg.connect()
  let broken: Error | undefined
  const closeConnection = () => void client.end()
  try {
    cut?.throwIfAborted()
    cut?.addEventListener('abort', closeConnection)
    await client.query('BEGIN')
    const result = await work({ query: (statement, values) => run(client, statement, values) })
    const { command } = await client.query('COMMIT')
    if (command !== 'COMMIT') throw new Error('The transaction was rolled back: one of its statements had failed.')
    return result
  } catch (error) {
    // A connection that cannot roll back is discarded, and PostgreSQL rolls back when it notices that. The time
    // limit is shorter than that of a statement: `work` often failed because PostgreSQL does not answer, and has
    // already waited the full limit.
    await run(client, 'ROLLBACK', [], ROLLBACK_TIMEOUT_MS).catch((cause: Error) => {
      broken = cause
    })
    throw error
  } finally {
    cut?.removeEventListener('abort', closeConnection)
    client.release(broken)
  }
}

const ROLLBACK_TIMEOUT_MS = 1_000

async function run<Row>(
  target: pg.Pool | pg.PoolClient,
  statement: string | NamedStatement,
  values: readonly unknown[] = [],
  timeoutMs?: number,
): Promise<SqlResult<Row>> {
  const { name, text } = typeof statement === 'string' ? { name: undefined, text: statement } : statement
  const limit = timeoutMs === undefined ? {} : { query_timeout: timeoutMs }
  // The caller asserts the row type of its own SQL.
  return (await target.query({
    ...(name && { name }),
    text,
    values: [...values],
    ...limit,
  })) as unknown as SqlResult<Row>
}

/** Set per pool, because every library in the process shares pg.types. */
const getTypeParser = ((oid: number, format?: 'text' | 'binary') => {
  if (format === 'binary') return standardParser(oid, format)
  switch (oid) {
    case INT8:
      return BigInt
    case INT8_ARRAY:
      return (text: string) => (standardParser(TEXT_ARRAY)(text) as unknown[]).map(toBigInt)
    // pg reads a date as midnight in the machine's time zone, which can be another day in UTC.
    case DATE:
      return (text: string) => text
    case DATE_ARRAY:
      return standardParser(TEXT_ARRAY)
    default:
      return standardParser(oid)
  }
}) as typeof pg.types.getTypeParser

// Type numbers of PostgreSQL's catalog. They never change.
const INT8 = 20
const INT8_ARRAY = 1016
const DATE = 1082
const DATE_ARRAY = 1182
const TEXT_ARRAY = 1009

const standardParser = pg.types.getTypeParser as (oid: number, format?: string) => (text: string) => unknown

function toBigInt(value: unknown): unknown {
  return value === null ? null : Array.isArray(value) ? value.map(toBigInt) : BigInt(String(value))
}
