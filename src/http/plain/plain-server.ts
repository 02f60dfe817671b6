import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { LinkedSet } from '../../base/runtime/collections.ts'
import type { WatchedServer } from '../connection-watch.ts'
import type { GenerationRoute } from '../generation-exchange.ts'
import { type ConnectionContext, PlainConnection } from './plain-connection.ts'
import { RequestLines } from './plain-request.ts'

export interface PlainServerOptions {
  /** The routes that are served. A request for another address is handed to node:http. */
  readonly routes: readonly GenerationRoute[]
  /** How long a connection may be idle between two requests. */
  readonly keepAliveMs: number
  /** Whether a request with these headers may be served here. The others are handed to node:http. Default: all may. */
  readonly isHere?: ((rawHeaders: readonly string[]) => boolean) | undefined
}

/**
 * Serves plain generation requests without node:http. Its parser, streams and messages take a fifth of the CPU
 * time of a whole answer (docs/decisions/2026-11-22-plain-door-before-node-http.md).
 *
 * Every connection starts here. At the first bytes that are not a plain request (see `parsePlainRequest`), the
 * connection and those bytes are handed to node:http for good. Examples are another address, a chunked body, a
 * long prompt, HTTP/1.0, and anything unusual or slow. Invalid requests are also left to node:http to refuse.
 */
export class PlainServer implements WatchedServer {
  readonly #open = new LinkedSet<PlainConnection>()
  #isClosed = false

  /** Takes over the 'connection' listeners that the server already has. */
  constructor(server: Server, { routes, keepAliveMs, isHere }: PlainServerOptions) {
    const listeners = server.listeners('connection') as ((socket: Socket) => void)[]
    const context: ConnectionContext = {
      lines: new RequestLines(routes),
      keepAliveMs,
      isHere,
      handOver(socket) {
        for (const listener of listeners) listener.call(server, socket)
      },
      refuse(error, socket) {
        if (!server.emit('clientError', error, socket)) socket.destroy()
      },
      onGone: connection => this.#open.remove(connection),
    }
    server.removeAllListeners('connection').on('connection', (socket: Socket) => {
      const connection = new PlainConnection(socket, context)
      this.#open.add(connection)
      if (this.#isClosed) connection.handOver()
    })
  }

  check(nowMs: number): void {
    for (const connection of this.#open) connection.check(nowMs)
  }

  close(): void {
    this.#isClosed = true
    for (const connection of this.#open) connection.close()
  }
}
