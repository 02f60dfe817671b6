import type { WebSocket } from 'ws'
import { endOfTurn } from '../../base/runtime/scheduler.ts'

/** Pings, and pongs, that an agent may send within one interval of ours. It needs no ping, and one pong. */
const PINGS_MAX = 8

/**
 * Pings WebSockets and closes those that do not answer before the next ping: a connection that a router has dropped
 * looks open for minutes, and a request on it would wait for nothing.
 */
export class Liveness {
  readonly #watched = new Map<WebSocket, { isWaiting: boolean; pings: number; pongs: number }>()
  readonly #timer: NodeJS.Timeout

  constructor(intervalMs: number) {
    // At the end of the turn: after this process was suspended, it must first read what has arrived.
    this.#timer = setInterval(() => endOfTurn(() => this.#check()), intervalMs).unref()
  }

  watch(socket: WebSocket): void {
    const entry = { isWaiting: false, pings: 0, pongs: 0 }
    this.#watched.set(socket, entry)
    const isAlive = () => {
      entry.isWaiting = false
    }
    socket
      .on('pong', () => {
        if (++entry.pongs > PINGS_MAX) socket.terminate()
        else isAlive()
      })
      // A pong waits behind the messages before it.
      .on('message', isAlive)
      .on('ping', (data: Buffer) => {
        // Answered here and not by the library, so that a flood is not answered.
        if (++entry.pings > PINGS_MAX) socket.terminate()
        else socket.pong(data)
      })
      .once('close', () => this.#watched.delete(socket))
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  #check(): void {
    for (const [socket, entry] of this.#watched) {
      // While a slow client holds up the response, no pong is read.
      if (socket.isPaused) entry.isWaiting = false
      else if (entry.isWaiting) socket.terminate()
      else if (socket.readyState === socket.OPEN) {
        entry.isWaiting = true
        entry.pings = 0
        entry.pongs = 0
        socket.ping()
      }
    }
  }
}
