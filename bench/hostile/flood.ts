import type { Socket } from 'node:net'

/** Writes the same bytes as fast as the gateway reads them, until the connection closes. */
export async function flood(socket: Socket, bytes: Buffer): Promise<void> {
  while (!socket.destroyed) {
    if (socket.write(bytes)) await new Promise(setImmediate)
    else await drainedOrClosed(socket)
  }
}

function drainedOrClosed(socket: Socket): Promise<void> {
  return new Promise(resolve => {
    const done = () => {
      socket.off('drain', done).off('close', done)
      resolve()
    }
    socket.on('drain', done).on('close', done)
  })
}
