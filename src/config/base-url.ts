import type { Config } from './config.ts'

type ServerAddress = Pick<Config['server'], 'host' | 'port' | 'publicBaseUrl'>

/**
 * The address customers use, without `/v1`: the configured one, or where the server listens.
 *
 * @param port the one it listens on, when the configured one is 0
 */
export function baseUrlOf({ server }: { readonly server: ServerAddress }, port: number = server.port): string {
  return server.publicBaseUrl ?? localUrlOf({ host: server.host, port })
}

/** Where the server is reached from this machine: one on all addresses by loopback, so that the printed examples work. */
export function localUrlOf({ host, port }: Pick<ServerAddress, 'host' | 'port'>): string {
  const reached = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[host] ?? host
  return `http://${reached.includes(':') && !reached.startsWith('[') ? `[${reached}]` : reached}:${port}`
}
