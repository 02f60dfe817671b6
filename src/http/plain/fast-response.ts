import type { Socket } from 'node:net'
import { http } from '../../runtime/node-http.ts'
import { encodeChunk } from '../encode-chunk.ts'
import type { HeaderList } from '../header-list.ts'
import type { RawResponse } from '../raw-response.ts'

/** What a response belongs to. */
export interface ResponseOwner {
  readonly socket: Socket
  readonly keepAliveS: number
  /** The response has been handed to the socket. */
  onAnswered(keepsAlive: boolean): void
}

/** A response on a connection of its own: never behind another one, always HTTP/1.1, written to the socket as it is made. */
export class FastResponse implements RawResponse {
  statusCode = 200
  headersSent = false
  chunkedEncoding = false
  destroyed = false
  writableEnded = false
  readonly #owner: ResponseOwner
  readonly #onClose: (() => void)[] = []
  /** Until it leaves, with the body or alone. */
  #head = ''
  #keepsAlive = true

  constructor(owner: ResponseOwner) {
    this.#owner = owner
  }

  get socket(): Socket {
    return this.#owner.socket
  }

  get writableFinished(): boolean {
    return this.writableEnded
  }

  get writableNeedDrain(): boolean {
    return this.socket.writableNeedDrain
  }

  on(event: 'close' | 'drain', listener: () => void): void {
    if (event === 'close') this.#onClose.push(listener)
    else this.socket.on(event, listener)
  }

  off(event: 'drain', listener: () => void): void {
    this.socket.off(event, listener)
  }

  /**
   * Throws a TypeError for a value that is not visible ASCII: stricter than Node, which sends Latin-1, and no header of ours has any. Names are our
   * own and are not checked.
   */
  writeHead(status: number, headers: HeaderList): this {
    let head = `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\n`
    this.chunkedEncoding = true
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!
      const value = headers[i + 1]!
      if (!SENDABLE.test(value)) throw new TypeError(`The header ${name} cannot be sent: it is not plain ASCII.`)
      if (name === 'content-length') this.chunkedEncoding = false
      if (name === 'connection') this.#keepsAlive = value !== 'close'
      head += `${name}: ${value}\r\n`
    }
    head += `Date: ${date()}\r\n`
    if (this.#keepsAlive) head += `Connection: keep-alive\r\nKeep-Alive: timeout=${this.#owner.keepAliveS}\r\n`
    if (this.chunkedEncoding) head += 'Transfer-Encoding: chunked\r\n'
    this.#head = `${head}\r\n`
    this.statusCode = status
    this.headersSent = true
    return this
  }

  flushHeaders(): void {
    if (this.destroyed) return
    this.socket.write(this.#head, 'latin1')
    this.#head = ''
  }

  end(text = ''): void {
    if (this.destroyed) return
    // One write, and one packet, where the answer is whole.
    const body = this.chunkedEncoding && text !== '' ? encodeChunk(text) : text
    this.socket.write(this.#head + body + (this.chunkedEncoding ? LAST_CHUNK : ''))
    this.writableEnded = true
    this.close()
    this.#owner.onAnswered(this.#keepsAlive)
  }

  destroy(): void {
    if (this.destroyed) return
    this.destroyed = true
    this.socket.destroy()
  }

  /** The connection is gone, or the answer has left. */
  close(): void {
    this.destroyed = true
    for (const listener of this.#onClose.splice(0)) listener()
  }
}

const LAST_CHUNK = '0\r\n\r\n'
const SENDABLE = /^[\t\x20-\x7e]*$/

let dateText = ''
let dateS = 0

/** The time as HTTP writes it, made anew once a second. */
function date(): string {
  const nowS = Math.floor(Date.now() / 1000)
  if (nowS !== dateS) {
    dateS = nowS
    dateText = new Date(nowS * 1000).toUTCString()
  }
  return dateText
}
