import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'

/** An upstream one layer below the scripted one: tests control its connections and every byte it writes. */
export interface RawUpstream {
  readonly baseUrl: string
  /** In the order of arrival. */
  readonly connections: readonly SeenConnection[]
  /** Returns the next connection that no earlier call returned, and waits for it if necessary. */
  next(): Promise<SeenConnection>
  /** Closes all connections and frees the port. */
  close(): Promise<void>
}

export interface SeenConnection {
  readonly socket: Socket
  /** Position in the order of connections, from 1. */
  readonly place: number
  /** The bodies of the requests received so far. */
  readonly requests: readonly string[]
  readonly closed: Promise<void>
}

/** Handles one request. It may leave it unanswered. */
export type Respond = (connection: SeenConnection, body: string) => void | Promise<void>

/** Starts an upstream on a free port. With an `identity` it speaks TLS and its host name is `localhost`. */
export async function startRawUpstream(
  respond: Respond,
  identity?: { readonly key: string; readonly cert: string },
): Promise<RawUpstream> {
  const connections: SeenConnection[] = []
  let returned = 0
  let arrival = Promise.withResolvers<void>()

  const take = (socket: Socket) => {
    const { promise: closed, resolve } = Promise.withResolvers<void>()
    const requests: string[] = []
    const connection = { socket, place: connections.length + 1, requests, closed }
    socket.setNoDelay(true)
    socket.on('error', () => {}) // tests close clients on purpose
    socket.once('close', () => resolve())
    readRequests(socket, body => {
      requests.push(body)
      void respond(connection, body)
    })
    connections.push(connection)
    arrival.resolve()
    arrival = Promise.withResolvers()
  }
  const server = identity ? createTlsServer(identity, take) : createServer(take)
  server.on('tlsClientError', () => {}) // tests reject the certificate on purpose
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    baseUrl: identity ? `https://localhost:${port}/v1` : `http://127.0.0.1:${port}/v1`,
    connections,
    async next() {
      const index = returned
      returned += 1
      while (connections.length <= index) await arrival.promise
      return connections[index]!
    },
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const { socket } of connections) socket.destroy()
      await closed
    },
  }
}

/** Calls `onRequest` with the body of each complete request. */
function readRequests(socket: Socket, onRequest: (body: string) => void): void {
  let pieces: Buffer[] = []
  let bytes = 0
  let bytesWanted = 0
  socket.on('data', (piece: Buffer) => {
    pieces.push(piece)
    bytes += piece.length
    while (bytes > 0 && bytes >= bytesWanted) {
      const all = Buffer.concat(pieces)
      const bodyStart = all.indexOf('\r\n\r\n') + 4
      if (bodyStart === 3) return
      bytesWanted = bodyStart + Number(/content-length: (\d+)/.exec(all.toString('latin1', 0, bodyStart))![1])
      if (bytes < bytesWanted) return
      pieces = [all.subarray(bytesWanted)]
      bytes -= bytesWanted
      onRequest(all.toString('utf8', bodyStart, bytesWanted))
      bytesWanted = 0
    }
  })
}
