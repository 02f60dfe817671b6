import type { Server } from 'node:http'
import { Server as NetServer } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** The longest wait for a turn without a new connection: under constant load there is none. */
const ACCEPTING_MS_MAX = 1_000

/**
 * Closes the port and keeps all connections, including idle ones, which `http.Server.close` would close.
 * Closing the port resets connections that wait in the kernel's accept queue, so they are accepted first: node
 * accepts one per turn of the event loop, and a turn without one proves that the queue is empty.
 */
export async function stopListening(server: Server): Promise<void> {
  let hasAccepted = true
  const onConnection = () => {
    hasAccepted = true
  }
  server.on('connection', onConnection)
  // The current turn may have polled the queue already.
  await nextTurn()
  for (const endMs = performance.now() + ACCEPTING_MS_MAX; hasAccepted && performance.now() < endMs; ) {
    hasAccepted = false
    await nextTurn()
  }
  server.off('connection', onConnection)
  NetServer.prototype.close.call(server)
}
