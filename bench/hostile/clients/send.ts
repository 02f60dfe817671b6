import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { Client } from '../../client.ts'
import { atRate, type ClientBehaviour, type HostileCustomer, type Request, type Target } from '../behaviour.ts'

interface SendOptions {
  readonly ratePerS: number
  readonly party?: 'customer' | 'stranger'
  readonly customer?: HostileCustomer
  /** At this many unanswered requests, no more are sent. Default 200. */
  readonly inFlightMax?: number
}

/** A client that sends requests at a fixed rate, whether or not earlier ones were answered. Four are built before the load. */
export function sends(
  name: string,
  what: string,
  options: SendOptions,
  build: (at: number) => Request,
): ClientBehaviour {
  const { ratePerS, party = 'customer', customer, inFlightMax = 200 } = options
  return {
    name,
    what: `${what}, ${ratePerS} a second`,
    party,
    ...(customer && { customer }),
    async run(target) {
      const requests = Array.from({ length: 4 }, (_, at) => wire(target, build(at), party === 'customer'))
      const client = new Client(target.origin)
      let sent = 0
      let inFlight = 0
      await atRate(ratePerS, target.signal, () => {
        if (inFlight >= inFlightMax) return
        inFlight++
        let code: string | undefined
        client.send(requests[sent++ % requests.length]!, {
          onBytes: bytes => {
            code ??= errorCode(bytes)
          },
          onEnd: status => {
            inFlight--
            target.note(status === null ? 'cut' : code === undefined ? status : `${status} ${code}`)
          },
        })
      })
      client.close()
    },
  }
}

/** A client that opens a connection for each request, writes these bytes, and then does something else than to read. */
export function opensAndWrites(
  name: string,
  what: string,
  options: SendOptions,
  write: (target: Target) => string,
  then: (socket: Socket, target: Target) => unknown,
): ClientBehaviour {
  const { ratePerS, party = 'customer', customer, inFlightMax = 1_000 } = options
  return {
    name,
    what: `${what}, ${ratePerS} a second`,
    party,
    ...(customer && { customer }),
    async run(target) {
      const bytes = Buffer.from(write(target), 'latin1')
      const sockets = new Set<Socket>()
      await atRate(ratePerS, target.signal, () => {
        if (sockets.size >= inFlightMax) return
        const socket = openSocket(target, sockets)
        socket.write(bytes)
        then(socket, target)
      })
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** Keeps this many connections open, and opens a new one for each that the gateway closes. */
export function keepsOpen(
  name: string,
  what: string,
  connections: number,
  onOpen: (socket: Socket, target: Target) => unknown,
  party: 'customer' | 'stranger' = 'stranger',
): ClientBehaviour {
  return {
    name,
    what: `${connections.toLocaleString('en')} connections: ${what}`,
    party,
    async run(target) {
      const sockets = new Set<Socket>()
      await atRate(20, target.signal, () => {
        for (let missing = Math.min(200, connections - sockets.size); missing > 0; missing--) {
          const socket = openSocket(target, sockets)
          socket.once('connect', () => onOpen(socket, target))
        }
      })
      for (const socket of sockets) socket.destroy()
    },
  }
}

/** Opens a connection that reads and discards what it receives. */
export function openSocket({ origin, note }: Target, sockets: Set<Socket>): Socket {
  const { hostname, port } = new URL(origin)
  const socket = connect({ host: hostname, port: Number(port), noDelay: true })
  sockets.add(socket)
  socket.once('data', (bytes: Buffer) =>
    note(/^HTTP\/1\.1 (\d+)/.exec(bytes.toString('latin1', 0, 20))?.[1] ?? 'bytes'),
  )
  socket.on('error', () => {})
  socket.once('connect', () => note('opened'))
  socket.once('close', () => {
    sockets.delete(socket)
    note('closed')
  })
  return socket.resume()
}

/** The bytes of a request, one character each. */
export function wire({ origin, headers: customer }: Target, request: Request, withKey = true): string {
  const { body, path = '/v1/chat/completions', method = body === undefined ? 'GET' : 'POST' } = request
  const bytes = body === undefined ? '' : toBytes(body).toString('latin1')
  const headers = {
    host: new URL(origin).host,
    ...(withKey && customer),
    ...(body !== undefined && { 'content-type': 'application/json', 'content-length': String(bytes.length) }),
    ...request.headers,
  }
  const lines = Object.entries(headers).map(([field, value]) => `${field}: ${value}\r\n`)
  return `${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n${bytes}`
}

/** The head of a chat request with a body that the caller sends. `more`: lines that end in CRLF. */
export function chatHead({ origin, headers }: Target, more: string): string {
  const { authorization } = headers
  return `POST /v1/chat/completions HTTP/1.1\r\nhost: ${new URL(origin).host}\r\nauthorization: ${authorization}\r\ncontent-type: application/json\r\n${more}\r\n`
}

export function chat(content: unknown, more: object = {}): object {
  return { model: 'bench', messages: [{ role: 'user', content }], max_tokens: 16, ...more }
}

/** Writes one piece after the other, with pauses, until the connection closes. */
export async function drips(socket: Socket, piece: string, everyMs: number): Promise<void> {
  while (!socket.destroyed) {
    socket.write(piece, 'latin1')
    await delay(everyMs)
  }
}

function toBytes(body: Buffer | string | object): Buffer {
  if (Buffer.isBuffer(body)) return body
  return Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
}

function errorCode(bytes: Buffer): string | undefined {
  return /"code":"(\w+)"/.exec(bytes.toString('latin1', 0, 2_000))?.[1]
}
