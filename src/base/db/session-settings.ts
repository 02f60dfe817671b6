import type pg from 'pg'
import type { Connection } from './connection.ts'

/**
 * Settings of every session of PostgreSQL.
 *
 * The keep-alives let each side notice within 30 s that the other has vanished: its host lost power, or a
 * firewall dropped the connection. Linux takes 2 h 15 min by default. During that time this side would wait
 * for answers without a time limit (an audit) or for notifications, and PostgreSQL would keep the session
 * with its place among `max_connections` and its advisory locks, including the lock of the migrations.
 * Keep-alives have no effect on a Unix socket.
 *
 * The other settings make values read and written independent of what an operator has set for the server,
 * role or database.
 */
export const sessionDefaults = {
  tcp_keepalives_idle: '10s',
  tcp_keepalives_interval: '5s',
  tcp_keepalives_count: '4',
  // Covers a session that is sending an answer: keep-alives are only sent on an idle connection.
  tcp_user_timeout: '30s',
  // node-postgres cannot parse times in other styles (immich static-pages pull request 719).
  datestyle: 'ISO',
  // With array_nulls off, PostgreSQL reads NULL in an array as the text "NULL", and no chat is admitted. With
  // fewer float digits, sums of milliseconds are rounded to other times.
  array_nulls: 'on',
  extra_float_digits: '1',
  // At a higher level, two transactions that write the same row fail instead of running one after the other
  // (xagent issue 1945).
  default_transaction_isolation: 'read committed',
  // On by default. A plan above a certain cost is then compiled each time it runs, which took 430 ms for a statement
  // of 0.04 ms: settlements ran into their time limit on PostgreSQL 15, and no charge was ever committed.
  jit: 'off',
  // Without it, PostgreSQL reports a commit before it is on the disk, and a crash of PostgreSQL loses it: 54 of the
  // answers in an attack were never charged. Set for all sessions, since nearly all of them move money.
  synchronous_commit: 'on',
  // Sessions that LISTEN are idle for hours, and each disconnect would be reported as an error.
  idle_session_timeout: '0',
  // Migrations and audits, and whatever waits for them, have no time limit. Callers that need a limit
  // override these settings.
  statement_timeout: '0',
  lock_timeout: '0',
  idle_in_transaction_session_timeout: '0',
} as const

const keepAlive = {
  keepAlive: true,
  // After that, Node probes every second, ten times.
  keepAliveInitialDelayMillis: 10_000,
} as const

/**
 * Settings to spread into a connection to PostgreSQL. `options` in a DATABASE_URL would replace those here: see
 * `withSessionOptions`.
 */
export const sessionSettings = {
  ...keepAlive,
  options: Object.entries(sessionDefaults)
    .map(([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`)
    .join(' '),
} as const

/**
 * Returns how a connection starts. `own` are its settings that differ from the default. A pooler would refuse all
 * settings: `beginPooledSession` makes them later.
 */
export function startOf(connection: Connection, own: Partial<SessionTimeouts> = {}): pg.ClientConfig {
  return connection.viaPooler ? { ...keepAlive, ...connection } : { ...sessionSettings, ...connection, ...own }
}

/** In milliseconds; 0 means never. */
export type SessionTimeouts = Record<
  'statement_timeout' | 'lock_timeout' | 'idle_in_transaction_session_timeout',
  number
>

/**
 * Appends our options to those of a `postgres://` URL, if it has any. The last value of a setting counts, so an
 * operator may add settings but not change those that Switchyard relies on.
 */
export function withSessionOptions(databaseUrl: string): string {
  const queryAt = databaseUrl.indexOf('?')
  if (queryAt === -1) return databaseUrl
  const query = new URLSearchParams(databaseUrl.slice(queryAt + 1))
  const options = query.get('options')
  if (options === null) return databaseUrl
  query.set('options', `${options} ${sessionSettings.options}`)
  return `${databaseUrl.slice(0, queryAt)}?${query}`
}
