import type { Socket } from 'node:net'

/**
 * Returns how many of a socket's bytes the kernel has accepted; null once the socket is closed.
 *
 * This is the only place that reads private fields of Node: the counters of the socket's handle. Node's socket
 * timeouts use them too, but they count a client that sends as one that reads. The public properties count a
 * write as a whole, and an answer is one write. They are the fallback: without the counters, a client that
 * needs longer than `slowReaderMs` for one write is treated as stalled.
 */
export function flushedBytes(socket: Socket): number | null {
  const { _handle: handle } = socket as Socket & { readonly _handle?: WriteCounters | null }
  if (!handle) return null
  const { bytesWritten, writeQueueSize } = handle
  if (bytesWritten !== undefined && writeQueueSize !== undefined) return bytesWritten - writeQueueSize
  return socket.bytesWritten - socket.writableLength
}

interface WriteCounters {
  readonly bytesWritten?: number
  readonly writeQueueSize?: number
}
