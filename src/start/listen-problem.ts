import { createServer } from 'node:net'
import { isSwitchyardAt } from '../market/supply/detection/is-switchyard-at.ts'
import { localUrlOf } from './config/base-url.ts'
import type { Config } from './config/config.ts'

type Address = Pick<Config['server'], 'host' | 'port'>

/**
 * How long to wait for the program on the port to identify itself. A gateway on a busy machine has needed more than a
 * second.
 */
const IDENTIFY_TIMEOUT_MS = 5_000

/** Listens on the address for a moment. Returns the error; undefined if a server can listen there. */
export async function tryToListen({ host, port }: Address): Promise<NodeJS.ErrnoException | undefined> {
  const { promise, resolve } = Promise.withResolvers<NodeJS.ErrnoException | undefined>()
  const probe = createServer()
    .once('error', resolve)
    .listen({ host, port }, () => probe.close(() => resolve(undefined)))
  return promise
}

/** Explains to the operator why a server cannot listen on the address. */
export async function listenProblem(error: NodeJS.ErrnoException, address: Address): Promise<string> {
  if (error.code !== 'EADDRINUSE') return listenErrorMessage(error, address)
  const url = localUrlOf(address)
  if (await isSwitchyardAt(url, IDENTIFY_TIMEOUT_MS))
    return `Another Switchyard server is already running at ${url}. Stop it, or choose another port with --port or PORT.`
  return `Port ${address.port} on ${address.host} is taken by another program. Choose another port with --port or PORT.`
}

/** Explains why the server cannot listen. The caller handles a port that is already in use. */
function listenErrorMessage(error: NodeJS.ErrnoException, { host, port }: { host: string; port: number }): string {
  switch (error.code) {
    case 'EADDRNOTAVAIL':
      return `This machine has no address ${host}. Set HOST or server.host to an address of this machine.`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The name ${host} does not resolve. Set HOST or server.host to an address of this machine.`
    case 'EACCES':
      return `This user may not listen on port ${port}. Set PORT or server.port to 1024 or higher.`
    default:
      return `Cannot listen on port ${port} of ${host}: ${error.message}. Set HOST and PORT, or server.host and server.port.`
  }
}
