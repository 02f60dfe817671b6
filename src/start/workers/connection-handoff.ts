import type { ChildProcess } from 'node:child_process'
import { setImmediate as nextTurn } from 'node:timers/promises'

/**
 * How Node's cluster hands a connection over and how the worker says that it has it, and what both call the port: parts of its protocol, which is not
 * documented. Should they change, connections are lost again where a worker dies and where the port is closed; test/nodes/workers.test.ts tells.
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

/** The connections that one worker is given. */
export interface ConnectionHandoffs {
  /** How many there were. */
  readonly count: number
  /** Whether one is on its way: the worker gets its next one when it has said that it has this one. */
  readonly hasPending: boolean
  /** The worker is given no more. When this is the last one that was, the port is closed, at once. */
  end(): void
}

/**
 * Watches what a worker is handed, and closes the connection that it did not take before it died, so that its client hears of it. Node (26.10)
 * waits for the worker's word for ever: the client waited too, and the primary kept the descriptor. Not given to another worker: what the
 * dead one may have read of it is gone.
 */
export function trackHandoffs(worker: ChildProcess): ConnectionHandoffs {
  const handedOver = new Map<number, Connection>()
  let count = 0
  let port: string | undefined
  const send = worker.send as (...args: unknown[]) => boolean
  worker.send = (message: HandoffMessage, connection?: unknown, ...rest: unknown[]) => {
    port = message.key ?? port
    if (message.act === 'newconn' && message.seq !== undefined) {
      handedOver.set(message.seq, connection as Connection)
      count++
    }
    return send.call(worker, message, connection, ...rest)
  }
  worker.on('internalMessage', ({ ack }: HandoffMessage) => {
    if (ack !== undefined) handedOver.delete(ack)
  })
  worker.on('exit', () => {
    for (const connection of handedOver.values()) connection.close()
  })
  return {
    get count() {
      return count
    },
    get hasPending() {
      return handedOver.size > 0
    },
    // As if the worker had said that it stops listening.
    end: () => void worker.emit('internalMessage', { cmd: 'NODE_CLUSTER', act: 'close', key: port }),
  }
}

/** Under a flood there is no quiet moment. Long enough for a hundred connections on a busy machine: each waits for the worker's word on the one before. */
const QUIET_MS_MAX = 5_000

/**
 * Closes the port when each connection that the primary has accepted is with a worker, or on its way to one, and resolves then. Were it left to the workers to
 * stop listening, those that the primary accepts before it hears of it would be nobody's: they were reset, requests and all.
 */
export async function closePort(workers: readonly ConnectionHandoffs[]): Promise<void> {
  // Not one that hangs.
  const last = workers.find(({ hasPending }) => !hasPending) ?? workers[0]
  if (last === undefined) return
  for (const other of workers) if (other !== last) other.end()
  const endMs = performance.now() + QUIET_MS_MAX
  // The rest of this turn, which may have looked before.
  await nextTurn()
  // One is accepted in a turn of the event loop: a turn without one has found the kernel's queue empty.
  for (let before = -1; (last.count !== before || last.hasPending) && performance.now() < endMs; ) {
    before = last.count
    await nextTurn()
  }
  last.end()
}
