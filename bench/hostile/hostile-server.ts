import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { exitWithParent } from '../process.ts'
import type { ServerBehaviour } from './behaviour.ts'
import { serverBehaviours } from './behaviours.ts'

/** Runs all hostile servers, each on a port of its own. Sends the ports by name. */
const ports = await Promise.all(serverBehaviours.map(async each => [each.name, await listen(each)]))
process.send!(Object.fromEntries(ports))
exitWithParent()

async function listen({ onRequest, onConnection, isClosed }: ServerBehaviour): Promise<number> {
  let count = 0
  const server = createServer({ noDelay: true, allowHalfOpen: true }, socket => {
    socket.on('error', () => {}).on('end', () => socket.end())
    onConnection?.(socket)
    readRequests(socket, (head, body) => {
      // The gateway asks local servers for the context of their models.
      if (head.startsWith('GET ')) return socket.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n')
      const stream = body.includes('"stream":true') || head.includes(':streamGenerateContent')
      const turn = { socket, stream, count: count++ }
      void Promise.resolve(onRequest(turn)).catch(() => {})
    })
  })
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  if (isClosed) server.close()
  return port
}

/** Calls `onRequest` with each complete request. All requests of the gateway with a body have a Content-Length. */
function readRequests(socket: Socket, onRequest: (head: string, body: Buffer) => void): void {
  let pieces: Buffer[] = []
  let head = ''
  let missing = 0
  const read = (bytes: Buffer) => {
    if (missing > 0) {
      pieces.push(bytes)
      missing -= bytes.length
    } else {
      const all = Buffer.concat([...pieces, bytes])
      pieces = [all]
      const headEnd = all.indexOf('\r\n\r\n')
      if (headEnd === -1) return
      head = all.toString('latin1', 0, headEnd)
      missing = headEnd + 4 + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0) - all.length
    }
    if (missing > 0) return
    const body = Buffer.concat(pieces)
    pieces = []
    missing = 0
    onRequest(head, body)
  }
  socket.on('data', read)
}
