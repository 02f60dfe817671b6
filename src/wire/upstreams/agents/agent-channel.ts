import { EventEmitter } from 'node:events'
import type { OnReadOpts } from 'node:net'
import type { WebSocket } from 'ws'
import type { ByteChannel } from '../byte-channel.ts'

/** Takes a data connection for one request. Returns a function that gives the place in the queue up. */
export type TakeAgent = (onTaken: (socket: WebSocket) => void, onRefused: (error: Error) => void) => () => void

/** The close code of a WebSocket that was ended in order. */
const CLOSED_NORMALLY = 1000

/**
 * A data connection of an agent as the transport of a `Connection`, for one request. It begins without a WebSocket: the
 * agent may have to open one first.
 */
export class AgentChannel extends EventEmitter implements ByteChannel {
  readonly #buffer: Uint8Array
  readonly #callback: (bytes: number, buffer: Uint8Array) => boolean
  readonly #cancel: () => void
  #socket: WebSocket | null = null
  #isDestroyed = false

  /** @param onConnected called when a request can be written */
  constructor({ buffer, callback }: OnReadOpts, take: TakeAgent, onConnected: () => void) {
    super()
    this.#buffer = buffer as Uint8Array
    this.#callback = callback
    this.#cancel = take(
      socket => {
        if (this.#isDestroyed) return socket.terminate()
        this.#socket = socket
        socket
          .on('message', (data: Buffer, isBinary: boolean) => this.#onMessage(data, isBinary))
          .once('close', code => this.#onClose(code))
        onConnected()
      },
      // The caller has yet to add its listeners.
      error => process.nextTick(() => this.emit('error', error)),
    )
  }

  get writableLength(): number {
    return this.#socket?.bufferedAmount ?? 0
  }

  write(text: string): void {
    this.#socket!.send(Buffer.from(text))
  }

  pause(): void {
    this.#socket?.pause()
  }

  resume(): void {
    this.#socket?.resume()
  }

  /** Closes the connection, so that the agent aborts its request at the server. */
  destroy(): void {
    if (this.#isDestroyed) return
    this.#isDestroyed = true
    this.#cancel()
    this.#socket?.terminate()
  }

  /** Hands on the bytes in pieces of the read buffer, as a socket does. */
  #onMessage(data: Buffer, isBinary: boolean): void {
    if (!isBinary || data.length === 0) {
      this.#fail('The agent sent a message that carries no bytes of a response.')
      return
    }
    for (let start = 0; start < data.length && !this.#isDestroyed; start += this.#buffer.length) {
      const piece = data.subarray(start, start + this.#buffer.length)
      this.#buffer.set(piece)
      this.#callback(piece.length, this.#buffer)
    }
  }

  #onClose(code: number): void {
    if (this.#isDestroyed) return
    if (code === CLOSED_NORMALLY) this.emit('end')
    if (!this.#isDestroyed) this.emit('close')
  }

  #fail(message: string): void {
    if (!this.#isDestroyed) this.emit('error', new Error(message))
  }
}
