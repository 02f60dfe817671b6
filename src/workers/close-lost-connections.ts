import type { ChildProcess } from 'node:child_process'

/** How Node's cluster hands a connection over, and how the worker says that it has it: two parts of its protocol, which is not documented. */
interface Handing {
  readonly act?: string
  readonly seq?: number
  readonly ack?: number
}

interface Connection {
  close(): void
}

/**
 * Closes the connection that a worker was handed and did not take before it died, so that its client hears of it. Node (26.10) waits for the
 * worker's word for ever: the client waited too, and the primary kept the descriptor. Not given to another worker: what the
 * dead one may have read of it is gone.
 */
export function closeLostConnections(worker: ChildProcess): void {
  const handedOver = new Map<number, Connection>()
  const send = worker.send as (...args: unknown[]) => boolean
  worker.send = (message: Handing, connection?: unknown, ...rest: unknown[]) => {
    if (message.act === 'newconn' && message.seq !== undefined) handedOver.set(message.seq, connection as Connection)
    return send.call(worker, message, connection, ...rest)
  }
  worker.on('internalMessage', ({ ack }: Handing) => {
    if (ack !== undefined) handedOver.delete(ack)
  })
  worker.on('exit', () => {
    for (const connection of handedOver.values()) connection.close()
  })
}
