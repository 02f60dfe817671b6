/**
 * Spread into the settings of every connection to PostgreSQL.
 *
 * Each side notices within half a minute that the other has vanished without a word: its host lost power, a firewall forgot the connection. By default
 * that takes Linux two hours and a quarter. For so long this side waits for an answer that has no time limit (an audit) or for notifications that never
 * come, and PostgreSQL keeps the session: its place among `max_connections` and its advisory locks, that of the migrations among them. On a Unix
 * socket this has no effect.
 *
 * And what is read and written means the same whatever an operator has set for its server, role or database.
 *
 * `options` in a DATABASE_URL replace those here.
 */
export const sessionSettings = {
  // Node then asks every second, ten times.
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
  options: Object.entries({
    tcp_keepalives_idle: '10s',
    tcp_keepalives_interval: '5s',
    tcp_keepalives_count: '4',
    // For a session that is just answering; keep-alives are only sent while nothing is under way.
    tcp_user_timeout: '30s',
    // In another style times cannot be read (immich static-pages pull request 719).
    datestyle: 'ISO',
    // Without it the NULL of an array is the text of that name, and no chat was admitted; with fewer digits a sum of milliseconds is another time.
    array_nulls: 'on',
    extra_float_digits: '1',
    // Above it, two who write the same row end with an error instead of one after the other (xagent issue 1945).
    default_transaction_isolation: 'read committed',
    // Those that listen rest for hours, and say an error whenever they are cut off.
    idle_session_timeout: '0',
    // Migrations, audits and who waits for either take as long as they take; whoever is to be limited says so beside these, which wins.
    statement_timeout: '0',
    lock_timeout: '0',
    idle_in_transaction_session_timeout: '0',
  })
    .map(([name, value]) => `-c ${name}=${value.replaceAll(' ', '\\ ')}`)
    .join(' '),
} as const
