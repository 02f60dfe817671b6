/**
 * Spread into the settings of every connection to PostgreSQL, so that each side notices within half a minute that the other has vanished without a
 * word: its host lost power, a firewall forgot the connection. By default that takes Linux two hours and a quarter. For so long this side waits for an
 * answer that has no time limit (an audit) or for notifications that never come, and PostgreSQL keeps the session: its place among `max_connections`
 * and its advisory locks, that of the migrations among them.
 *
 * `options` in a DATABASE_URL replace those here. On a Unix socket all of this has no effect.
 */
export const noticesDeadPeer = {
  // Node then asks every second, ten times.
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
  options: Object.entries({
    tcp_keepalives_idle: '10s',
    tcp_keepalives_interval: '5s',
    tcp_keepalives_count: '4',
    // For a session that is just answering; keep-alives are only sent while nothing is under way.
    tcp_user_timeout: '30s',
  })
    .map(([name, value]) => `-c ${name}=${value}`)
    .join(' '),
} as const
