import type { Server } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface RawClient {
  readonly socket: Socket
  /** All text that the server has sent. */
  read: string
  /** Whether the server has ended its side of the connection. */
  isEnded: boolean
  error: Error | null
}

/** Opens a connection for raw bytes. It stays half-open when the server ends its side, and is closed after the test. */
export function openClient(port: number): RawClient {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true }).setEncoding('latin1')
  onTestFinished(() => void socket.destroy())
  const client: RawClient = { socket, read: '', isEnded: false, error: null }
  socket.on('data', (piece: string) => {
    client.read += piece
  })
  socket.on('end', () => {
    client.isEnded = true
  })
  socket.on('error', error => {
    client.error = error
  })
  return client
}

/** Listens on a free port until the test ends. Answers malformed requests with 400 and slow ones with 408. */
export async function listenForTest(server: Server): Promise<number> {
  onTestFinished(() => void server.close())
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const status = error.code === 'ERR_HTTP_REQUEST_TIMEOUT' ? 408 : 400
    socket.end(`HTTP/1.1 ${status} Refused\r\nConnection: close\r\n\r\n`)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}
