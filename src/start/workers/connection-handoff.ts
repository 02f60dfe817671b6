import type { ChildProcess } from 'node:child_process'
import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * Undocumented messages of Node's cluster module: `act: 'newconn'` hands a connection over, `ack` confirms it,
 * `key` names the port. If Node changes them, connections are lost when a worker dies and when the port
 * closes; test/nodes/workers.test.ts covers both.
 */
interface HandoffMessage {
  readonly act?: string
  readonly key?: string
  readonly seq?: number
  readonly ack?: number
}

interface Connection {
  close(): void
}

/** The connections that the primary hands to one worker. */
export interface ConnectionHandoffs {
  /** The number of connections handed over so far. */
  readonly count: number
  /** Whether the worker has yet to confirm a connection. It gets the next one only after the confirmation. */
  readonly hasPending: boolean
  /** Stops handing connections to the worker. When no other worker is left, the port closes immediately. */
  end(): void
}

/**
 * Tracks the connections handed to a worker. If the worker dies before it confirms one, that connection is
 * closed, so that its client sees an error. Node (26.10) waits for the confirmation forever: the client would
 * wait too, and the primary would keep the descriptor. The connection cannot go to another worker, because the
 * dead one may have read part of it.
 */
export function trackHandoffs(worker: ChildProcess): ConnectionHandoffs {
  const unconfirmed = new Map<number, Connection>()
  let count = 0
  let port: string | undefined
  const send = worker.send as (...args: unknown[]) => boolean
  worker.send = (message: HandoffMessage, connection?: unknown, ...rest: unknown[]) => {
    port = message.key ?? port
    if (message.act === 'newconn' && message.seq !== undefined) {
      unconfirmed.set(message.seq, connection as Connection)
      count++
    }
    return send.call(worker, message, connection, ...rest)
  }
  worker.on('internalMessage', ({ ack }: HandoffMessage) => {
    if (ack !== undefined) unconfirmed.delete(ack)
  })
  worker.on('exit', () => {
    for (const connection of unconfirmed.values()) connection.close()
  })
  return {
    get count() {
      return count
    },
    get hasPending() {
      return unconfirmed.size > 0
    },
    // Simulates the message of a worker that stops listening.
    end: () => void worker.emit('internalMessage', { cmd: 'NODE_CLUSTER', act: 'close', key: port }),
  }
}

/**
 * Upper limit for the wait in `closePort`, because under a flood new connections never pause. Enough for a
 * hundred connections on a busy machine: each waits until the worker has confirmed the previous one.
 */
const QUIET_MS_MAX = 5_000

/**
 * Closes the port once every accepted connection is with a worker or on its way to one, then resolves. If the
 * workers stopped listening instead, connections that the primary accepts before it notices would be reset
 * together with their requests.
 */
export async function closePort(workers: readonly ConnectionHandoffs[]): Promise<void> {
  // Prefer a worker that has confirmed its connections: one that has not may be hanging.
  const last = workers.find(({ hasPending }) => !hasPending) ?? workers[0]
  if (last === undefined) return
  for (const other of workers) if (other !== last) other.end()
  const endMs = performance.now() + QUIET_MS_MAX
  // Connections may have been accepted earlier in this turn of the event loop, so wait for the next one.
  await nextTurn()
  // The primary accepts one connection per turn: a turn without one means that the kernel's queue is empty.
  for (let countBefore = -1; (last.count !== countBefore || last.hasPending) && performance.now() < endMs; ) {
    countBefore = last.count
    await nextTurn()
  }
  last.end()
}
