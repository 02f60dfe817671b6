import { connect, type Socket } from 'node:net'
import { atRate, type Behaviour, type Target } from './behaviour.ts'

/** Clients without a key. */
export const strangerBehaviours: readonly Behaviour[] = [
  opens('2,000 silent connections', 2_000, () => {}),
  opens('2,000 connections that send half a head', 2_000, socket => {
    socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\n')
  }),
  opens('1,000 connections that send a byte of their head each second', 1_000, (socket, { signal }) => {
    socket.write('POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\n')
    return atRate(1, signal, async () => {
      if (socket.writable) socket.write('x')
    })
  }),
  {
    name: 'wrong keys, 500 a second',
    party: 'stranger',
    run: ({ origin, signal, note }) =>
      atRate(500, signal, async () => {
        const headers = { authorization: `Bearer sy_${Math.random()}`, 'content-type': 'application/json' }
        const response = await fetch(`${origin}/v1/chat/completions`, { method: 'POST', headers, body: '{}' })
        await response.arrayBuffer()
        note(response.status)
      }),
  },
]

/** Keeps this many connections open, and opens a new one for each that the gateway closes. */
function opens(
  name: string,
  connections: number,
  onOpen: (socket: Socket, target: Target) => void | Promise<void>,
): Behaviour {
  return {
    name,
    party: 'stranger',
    async run(target) {
      const { hostname, port } = new URL(target.origin)
      const sockets = new Set<Socket>()
      const open = () => {
        const socket = connect({ host: hostname, port: Number(port) })
        sockets.add(socket)
        socket.resume().once('connect', () => {
          target.note('opened')
          void onOpen(socket, target)
        })
        socket.on('error', () => {})
        socket.once('close', () => {
          sockets.delete(socket)
          target.note('closed')
        })
      }
      await atRate(20, target.signal, async () => {
        for (let missing = Math.min(200, connections - sockets.size); missing > 0; missing--) open()
      })
      for (const socket of sockets) socket.destroy()
    },
  }
}
