import type { Server as HttpServer } from 'node:http'
import { type ListenOptions, Server } from 'node:net'
import { reportPort } from './process.ts'

/**
 * Starts Portkey's gateway on loopback. Its start script listens on all interfaces, has no option for the address and exports nothing, so this
 * script overrides `listen` of all Node servers.
 */
const { listen } = Server.prototype
Server.prototype.listen = function (this: Server, port?: unknown, _host?: unknown, onListening?: () => void) {
  this.once('listening', () => reportPort(this as HttpServer))
  const where: ListenOptions = { port: Number(port), host: '127.0.0.1', backlog: 4096 }
  return listen.call(this, where, onListening)
} as typeof listen

await import('@portkey-ai/gateway/build/start-server.js')
