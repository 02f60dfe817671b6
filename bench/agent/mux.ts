import { EventEmitter } from 'node:events'
import type { WebSocket } from 'ws'

/**
 * The shape that was measured and not chosen: all requests of an agent share one WebSocket. A frame is the number of its
 * stream (4 bytes), a flag (1 byte) and the payload. There is no flow control for each stream, which a product would need.
 */
export class Mux {
  readonly #socket: WebSocket
  readonly #streams = new Map<number, MuxStream>()
  readonly #onOpen: (stream: WebSocket) => void
  #nextId = 1

  constructor(socket: WebSocket, onOpen: (stream: WebSocket) => void) {
    this.#socket = socket
    this.#onOpen = onOpen
    socket.on('message', (data: Buffer) => this.#onFrame(data))
  }

  open(): WebSocket {
    return this.#add(this.#nextId++) as unknown as WebSocket
  }

  send(id: number, flag: Flag, payload: Buffer, done?: (error?: Error) => void): void {
    const head = Buffer.allocUnsafe(5)
    head.writeUInt32BE(id)
    head[4] = flag
    this.#socket.send(Buffer.concat([head, payload]), done)
  }

  forget(id: number): void {
    this.#streams.delete(id)
  }

  #add(id: number): MuxStream {
    const stream = new MuxStream(this, id)
    this.#streams.set(id, stream)
    return stream
  }

  #onFrame(data: Buffer): void {
    const id = data.readUInt32BE()
    let stream = this.#streams.get(id)
    if (data[4] === END) {
      stream?.onEnd()
      return
    }
    if (stream === undefined) {
      stream = this.#add(id)
      this.#onOpen(stream as unknown as WebSocket)
    }
    stream.emit('message', data.subarray(5), true)
  }
}

type Flag = typeof DATA | typeof END
const DATA = 0
const END = 1
const nothing = Buffer.alloc(0)

/** One stream, with the part of a WebSocket that the gateway and the agent use. */
class MuxStream extends EventEmitter {
  readonly OPEN = 1
  readonly CONNECTING = 0
  readonly CLOSED = 3
  readonly bufferedAmount = 0
  readonly isPaused = false
  readyState = 1
  readonly #mux: Mux
  readonly #id: number

  constructor(mux: Mux, id: number) {
    super()
    this.#mux = mux
    this.#id = id
  }

  send(data: Buffer | string, done?: (error?: Error) => void): void {
    this.#mux.send(this.#id, DATA, Buffer.from(data as Buffer), done)
  }

  close(): void {
    this.terminate()
  }

  terminate(): void {
    if (this.readyState === this.CLOSED) return
    this.#mux.send(this.#id, END, nothing)
    this.onEnd()
  }

  onEnd(): void {
    if (this.readyState === this.CLOSED) return
    this.readyState = this.CLOSED
    this.#mux.forget(this.#id)
    this.emit('close', 1000, nothing)
  }

  pause(): void {}
  resume(): void {}
}
