import pg from 'pg'
import type { Connection } from './embedded.ts'
import { PrimaryClient } from './primary-client.ts'
import { QueuePool } from './queue-pool.ts'
import { sessionSettings } from './session-settings.ts'

/** Rows come back as objects keyed by column; int8 as bigint, date and numeric as text, timestamptz as Date. */
export interface SqlResult<Row> {
  readonly rows: Row[]
  /** Rows read, inserted, updated or deleted; null for commands that have no count. */
  readonly rowCount: number | null
}

/** A statement with a name is prepared once per connection and then only executed. The name must be unique to its text. */
export interface NamedStatement {
  readonly name: string
  readonly text: string
}

/** Where a statement can run: a pool (each on any connection) or one transaction. */
export interface Sql {
  query<Row = Record<string, unknown>>(
    statement: string | NamedStatement,
    values?: readonly unknown[],
  ): Promise<SqlResult<Row>>
}

/** A pool of connections. `pg` is the underlying pg.Pool, for graphile-worker, which wants one. */
export interface Pool extends Sql {
  readonly pg: pg.Pool
  /** Waits for running queries, then closes all connections. Safe to call twice. */
  end(): Promise<void>
}

export interface PoolOptions {
  /** Most connections open at once. */
  readonly max: number
  /** Shown in pg_stat_activity. */
  readonly applicationName: string
  /** A statement that runs longer is cancelled (57014), or its connection given up a second later. Default 5,000; 0 means never. */
  readonly statementTimeoutMs?: number
  /** A statement that waits longer for a lock fails (55P03). Default 2,000; 0 means never. */
  readonly lockTimeoutMs?: number
  /** How long `query` waits for a free or new connection. Default 5,000; 0 means for ever. */
  readonly connectTimeoutMs?: number
  /** For graphile-worker: a `QueuePool`, with values as node-postgres reads them by itself, int8 as text. Default false. */
  readonly forQueue?: boolean
  /** Told when an idle connection breaks. The pool replaces it by itself. */
  readonly onIdleError?: (error: Error) => void
}

/** Makes a pool; connections open when they are needed. The defaults fit the short statements that move money. */
export function createPool(connection: Connection, options: PoolOptions): Pool {
  const statementTimeoutMs = options.statementTimeoutMs ?? 5000
  const inner = new (options.forQueue ? QueuePool : pg.Pool)({
    ...sessionSettings,
    ...connection,
    max: options.max,
    application_name: options.applicationName,
    statement_timeout: statementTimeoutMs,
    // PostgreSQL cancels by then if it is well. One that is paused or cut off never says so, and the connection is given up.
    ...(statementTimeoutMs > 0 && { query_timeout: statementTimeoutMs + 1000 }),
    lock_timeout: options.lockTimeoutMs ?? 2000,
    // A transaction that stays idle for longer loses its connection (25P03).
    idle_in_transaction_session_timeout: 5000,
    connectionTimeoutMillis: options.connectTimeoutMs ?? 5000,
    Client: PrimaryClient,
    onConnect: PrimaryClient.requirePrimary,
    ...(!options.forQueue && { types: { getTypeParser } }),
  })
  let ended: Promise<void> | undefined
  // Without a listener, a connection that breaks while nobody uses it ends the process.
  inner.on('error', error => {
    // Once it ends, a connection that PostgreSQL closes first is no news.
    if (!ended) options.onIdleError?.(error)
  })
  // While checked out, a broken connection reports to its client; who runs a statement on it gets the error anyway.
  inner.on('connect', client => client.on('error', () => {}))
  return {
    pg: inner,
    query: (statement, values) => run(inner, statement, values),
    end() {
      ended ??= inner.end()
      return ended
    },
  }
}

/**
 * The pool for short statements that a client waits for: they reject when there is no answer after `timeoutMs`, whatever they waited for.
 * A connection that has not answered a second later is given up, since it may lead nowhere and the next statement would wait for it too.
 */
export function withQueryTimeout({ pg: inner }: Pool, timeoutMs: number): Sql {
  return {
    async query<Row>(statement: string | NamedStatement, values?: readonly unknown[]) {
      const late = Promise.withResolvers<never>()
      const giveUp = () => late.reject(new Error(`no answer within ${timeoutMs} ms`))
      // After a stall of this process the answer may be there, waiting to be read.
      const timer = setTimeout(() => setImmediate(giveUp), timeoutMs)
      try {
        return await Promise.race([run<Row>(inner, statement, values, timeoutMs + 1000), late.promise])
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

/**
 * Runs `work` in one transaction: commits when it resolves, rolls back when it throws, and throws the same error on.
 * Also throws when `work` swallowed the error of a statement, because PostgreSQL then answers COMMIT with a rollback.
 *
 * @param cut gives the connection up when it is aborted, whatever was waited for on it: the statement under way rejects
 */
export async function transaction<T>(pool: Pool, work: (sql: Sql) => Promise<T>, cut?: AbortSignal): Promise<T> {
  const client = await pool.pg.connect()
  let broken: Error | undefined
  const giveUp = () => void client.end()
  try {
    cut?.throwIfAborted()
    cut?.addEventListener('abort', giveUp)
    await client.query('BEGIN')
    const result = await work({ query: (statement, values) => run(client, statement, values) })
    const { command } = await client.query('COMMIT')
    if (command !== 'COMMIT') throw new Error('The transaction was rolled back: one of its statements had failed.')
    return result
  } catch (error) {
    // A connection that cannot even roll back is thrown away, and PostgreSQL rolls back when it notices. It is not waited for as long as a
    // statement: what failed is often that this PostgreSQL says nothing, and then `work` has waited that long already.
    await run(client, 'ROLLBACK', [], ROLLBACK_PATIENCE_MS).catch((cause: Error) => {
      broken = cause
    })
    throw error
  } finally {
    cut?.removeEventListener('abort', giveUp)
    client.release(broken)
  }
}

const ROLLBACK_PATIENCE_MS = 1_000

async function run<Row>(
  target: pg.Pool | pg.PoolClient,
  statement: string | NamedStatement,
  values: readonly unknown[] = [],
  timeoutMs?: number,
): Promise<SqlResult<Row>> {
  const { name, text } = typeof statement === 'string' ? { name: undefined, text: statement } : statement
  const limit = timeoutMs === undefined ? {} : { query_timeout: timeoutMs }
  // The row type is the caller's claim about its own SQL.
  return (await target.query({
    ...(name && { name }),
    text,
    values: [...values],
    ...limit,
  })) as unknown as SqlResult<Row>
}

/** Set per pool and not on pg.types, which every library in the process shares. */
const getTypeParser = ((oid: number, format?: 'text' | 'binary') => {
  if (format === 'binary') return standardParser(oid, format)
  switch (oid) {
    case INT8:
      return BigInt
    case INT8_ARRAY:
      return (text: string) => (standardParser(TEXT_ARRAY)(text) as unknown[]).map(toBigInt)
    // pg reads a date as midnight in the machine's time zone, which is another day in UTC.
    case DATE:
      return (text: string) => text
    case DATE_ARRAY:
      return standardParser(TEXT_ARRAY)
    default:
      return standardParser(oid)
  }
}) as typeof pg.types.getTypeParser

// Type numbers of PostgreSQL's catalogue, fixed for ever.
const INT8 = 20
const INT8_ARRAY = 1016
const DATE = 1082
const DATE_ARRAY = 1182
const TEXT_ARRAY = 1009

const standardParser = pg.types.getTypeParser as (oid: number, format?: string) => (text: string) => unknown

function toBigInt(value: unknown): unknown {
  return value === null ? null : Array.isArray(value) ? value.map(toBigInt) : BigInt(String(value))
}
