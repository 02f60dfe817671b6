import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { createServer as createTlsServer } from 'node:tls'

/** An upstream one layer below the scripted one: it knows connections, and writes what a test says, byte by byte. */
export interface RawUpstream {
  readonly baseUrl: string
  /** In the order in which they came. */
  readonly connections: readonly SeenConnection[]
  /** The next connection that no earlier call returned; waits for it if need be. */
  next(): Promise<SeenConnection>
  /** Hangs up on everybody and frees the port. */
  close(): Promise<void>
}

export interface SeenConnection {
  readonly socket: Socket
  /** Its place in the order of connections, from 1. */
  readonly place: number
  /** The bodies of the requests that came over it. */
  readonly requests: readonly string[]
  readonly closed: Promise<void>
}

/** Answers one request, or does not. */
export type Respond = (connection: SeenConnection, body: string) => void | Promise<void>

/** Speaks TLS if it has an `identity`, and is then found as `localhost`. */
export async function startRawUpstream(
  respond: Respond,
  identity?: { readonly key: string; readonly cert: string },
): Promise<RawUpstream> {
  const connections: SeenConnection[] = []
  let handedOut = 0
  let arrival = Promise.withResolvers<void>()

  const take = (socket: Socket) => {
    const { promise: closed, resolve } = Promise.withResolvers<void>()
    const requests: string[] = []
    const connection = { socket, place: connections.length + 1, requests, closed }
    socket.setNoDelay(true)
    socket.on('error', () => {}) // a client that is gone is part of the test
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
  server.on('tlsClientError', () => {}) // and so is one that does not trust us
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    baseUrl: identity ? `https://localhost:${port}/v1` : `http://127.0.0.1:${port}/v1`,
    connections,
    async next() {
      const index = handedOut
      handedOut += 1
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

/** Hands over the body of each request that has arrived whole. */
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
