import type { WebSocket } from 'ws'
import { endOfTurn } from '../base/runtime/scheduler.ts'

export interface LivenessOptions {
  readonly intervalMs: number
  /** Pings, and pongs, that the other side may send within one interval. */
  readonly pingsMax: number
  /**
   * False for programs that read, and so answer, only while they wait for something: pings then keep proxies from closing a
   * silent connection.
   */
  readonly mustAnswer: boolean
}

/**
 * Pings WebSockets. Those that must answer, and do not before the next ping, are closed: a connection that a router has
 * dropped looks open for minutes, and a request on it would wait for nothing.
 */
export class Liveness {
  readonly #watched = new Map<WebSocket, { isWaiting: boolean; pings: number; pongs: number }>()
  readonly #timer: NodeJS.Timeout
  readonly #options: LivenessOptions

  constructor(options: LivenessOptions) {
    this.#options = options
    // At the end of the turn: after this process was suspended, it must first read what has arrived.
    this.#timer = setInterval(() => endOfTurn(() => this.#check()), options.intervalMs).unref()
  }

  watch(socket: WebSocket): void {
    const { pingsMax } = this.#options
    const entry = { isWaiting: false, pings: 0, pongs: 0 }
    this.#watched.set(socket, entry)
    const isAlive = () => {
      entry.isWaiting = false
    }
    socket
      .on('pong', () => {
        if (++entry.pongs > pingsMax) socket.terminate()
        else isAlive()
      })
      // A pong waits behind the messages before it.
      .on('message', isAlive)
      .on('ping', (data: Buffer) => {
        // Answered here and not by the library, so that a flood is not answered.
        if (++entry.pings > pingsMax) socket.terminate()
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
      else if (entry.isWaiting && this.#options.mustAnswer) socket.terminate()
      else if (socket.readyState === socket.OPEN) {
        entry.isWaiting = true
        entry.pings = 0
        entry.pongs = 0
        socket.ping()
      }
    }
  }
}
