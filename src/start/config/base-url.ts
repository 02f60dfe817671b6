import type { Config } from './config.ts'

type ServerAddress = Pick<Config['server'], 'host' | 'port' | 'publicBaseUrl'>

/**
 * Returns the URL that customers use, without `/v1`: the configured one, or the address on which the server
 * listens.
 *
 * @param port the port on which the server listens, if the configured port is 0
 */
export function baseUrlOf({ server }: { readonly server: ServerAddress }, port: number = server.port): string {
  return server.publicBaseUrl ?? localUrlOf({ host: server.host, port })
}

/**
 * Returns the URL of the server for clients on this machine. When the server listens on all addresses, this is
 * the loopback URL, so that printed examples work.
 */
export function localUrlOf({ host, port }: Pick<ServerAddress, 'host' | 'port'>): string {
  const address = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[host] ?? host
  return `http://${address.includes(':') && !address.startsWith('[') ? `[${address}]` : address}:${port}`
}
