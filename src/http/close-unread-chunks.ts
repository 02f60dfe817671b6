import type { RequestListener } from 'node:http'
import type { Socket } from 'node:net'

/**
 * Stops reading a request that was answered before its chunked body ended. node:http would read and discard the rest
 * for up to 30 seconds, and small chunks cost far more CPU than other bytes. The client has the time of
 * `ConnectionWatch` to close its side. The rest of a body with a Content-Length is read, because a proxy that still
 * sends may count a reset as a failure of this node.
 */
export function closeUnreadChunks(listener: RequestListener): RequestListener {
  return (request, response) => {
    if (request.headers['transfer-encoding'] !== undefined) {
      response.once('finish', () => {
        // node:http resumes the socket in this turn.
        if (!request.complete) setImmediate(endUnread, request.socket)
      })
    }
    listener(request, response)
  }
}

function endUnread(socket: Socket): void {
  socket.pause()
  socket.end()
}
