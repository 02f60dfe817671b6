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
    readRequests(socket, body => {
      const turn = { socket, stream: body.includes('"stream":true'), count: count++ }
      void Promise.resolve(onRequest(turn)).catch(() => {})
    })
  })
  server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  if (isClosed) server.close()
  return port
}

/** Calls `onRequest` with the body of each complete request. All requests of the gateway have a Content-Length. */
function readRequests(socket: Socket, onRequest: (body: Buffer) => void): void {
  let pieces: Buffer[] = []
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
      const head = all.toString('latin1', 0, headEnd)
      missing = headEnd + 4 + Number(/\r\ncontent-length: *(\d+)/i.exec(head)?.[1] ?? 0) - all.length
    }
    if (missing > 0) return
    const body = Buffer.concat(pieces)
    pieces = []
    missing = 0
    onRequest(body)
  }
  socket.on('data', read)
}
