import type { Config } from '../config.ts'

/**
 * The address customers use, without `/v1`: the configured one, or where the server listens. A server on all addresses is
 * reachable on this machine by loopback, so that the printed examples work.
 *
 * @param port the one it listens on, when the configured one is 0
 */
export function baseUrlOf({ server }: Pick<Config, 'server'>, port: number = server.port): string {
  if (server.publicBaseUrl !== null) return server.publicBaseUrl
  const host = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[server.host] ?? server.host
  return `http://${host.includes(':') && !host.startsWith('[') ? `[${host}]` : host}:${port}`
}
