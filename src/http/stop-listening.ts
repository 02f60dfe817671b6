import type { Server } from 'node:http'
import { Server as NetServer } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** Stops waiting for a quiet turn after this long: under constant load there is none. */
const ACCEPTING_MS_MAX = 1_000

/**
 * Closes the port and keeps all connections, idle ones too; `http.Server.close` would close those. Closing the port resets connections that wait
 * in the kernel's accept queue, so they are accepted first: node accepts one in a turn of the event loop, and a turn without one proves the
 * queue empty.
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
