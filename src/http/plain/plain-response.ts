import type { Socket } from 'node:net'
import type { CancelSignal } from '../../base/runtime/cancel-signal.ts'
import type { HeaderList } from '../../base/runtime/header-list.ts'
import { http } from '../../base/runtime/node-http.ts'
import { connectedMsOf } from '../connection-bound.ts'
import { drained, encodeChunk, type GenerationResponse, type UnreadAnswer, unreadIn } from '../generation-exchange.ts'

/** The connection that a response belongs to. */
export interface ResponseOwner {
  readonly socket: Socket
  readonly keepAliveS: number
  /** Called before a whole answer is sent. May add headers. */
  onAnswering(status: number, headers: HeaderList): void
  /** Called when the response has been handed to the socket. */
  onAnswered(keepsAlive: boolean): void
}

/** A response of a plain connection: always HTTP/1.1, never pipelined, written directly to the socket. */
export class PlainResponse implements GenerationResponse {
  statusSent: number | null = null
  isClosed = false
  readonly #owner: ResponseOwner
  readonly #onClosed: ((isComplete: boolean) => void)[] = []
  #isEnded = false
  #keepsAlive = true

  constructor(owner: ResponseOwner) {
    this.#owner = owner
  }

  /**
   * Throws a TypeError for an unsendable header, as `startStream` does. Head and body are sent in one write, and
   * usually in one packet.
   */
  send(status: number, headers: HeaderList, body: string): void {
    this.#owner.onAnswering(status, headers)
    const head = this.#head(status, headers)
    this.statusSent = status
    if (!this.isClosed) this.#writeLast(`${head}\r\n${body}`)
  }

  startStream(headers: HeaderList): void {
    const head = this.#head(200, headers)
    this.statusSent = 200
    if (this.isClosed) return
    const { socket } = this.#owner
    socket.cork()
    socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n`, 'latin1')
    process.nextTick(() => socket.uncork())
  }

  write(text: string): boolean {
    const { socket } = this.#owner
    return this.isClosed || !socket.writable || socket.write(encodeChunk(text))
  }

  end(): void {
    if (!this.isClosed) this.#writeLast(LAST_CHUNK)
  }

  destroy(): void {
    if (this.isClosed) return
    this.isClosed = true
    this.#owner.socket.destroy()
  }

  get connectedMs(): number {
    return connectedMsOf(this.#owner.socket)
  }

  get needsDrain(): boolean {
    return this.#owner.socket.writableNeedDrain
  }

  drained(signal: CancelSignal): Promise<void> {
    return drained(this.#owner.socket, signal)
  }

  onceClosed(listener: (isComplete: boolean) => void): void {
    this.#onClosed.push(listener)
  }

  get unread(): UnreadAnswer | null {
    const { socket } = this.#owner
    if (!socket.writableNeedDrain || socket.closed) return null
    return unreadIn(socket)
  }

  /** Called when the connection has closed. */
  close(): void {
    this.isClosed = true
    for (const listener of this.#onClosed.splice(0)) listener(this.#isEnded)
  }

  #writeLast(text: string): void {
    this.#owner.socket.write(text)
    this.#isEnded = true
    this.close()
    this.#owner.onAnswered(this.#keepsAlive)
  }

  /**
   * Returns the head without the blank line that ends it. Throws a TypeError for a value that is not visible
   * ASCII; node:http would send Latin-1, which no header of the gateway contains. Names are constants and are
   * not checked.
   */
  #head(status: number, headers: HeaderList): string {
    let head = `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\n`
    for (let i = 0; i < headers.length; i += 2) {
      const name = headers[i]!
      const value = headers[i + 1]!
      if (!SENDABLE.test(value)) throw new TypeError(`The header ${name} cannot be sent: it is not plain ASCII.`)
      if (name === 'connection') this.#keepsAlive = value !== 'close'
      head += `${name}: ${value}\r\n`
    }
    head += `Date: ${httpDate()}\r\n`
    if (this.#keepsAlive) head += `Connection: keep-alive\r\nKeep-Alive: timeout=${this.#owner.keepAliveS}\r\n`
    return head
  }
}

const LAST_CHUNK = '0\r\n\r\n'
const SENDABLE = /^[\t\x20-\x7e]*$/

let dateText = ''
let dateS = 0

/** The time in HTTP's format, formatted once a second. */
function httpDate(): string {
  const nowS = Math.floor(Date.now() / 1000)
  if (nowS !== dateS) {
    dateS = nowS
    dateText = new Date(nowS * 1000).toUTCString()
  }
  return dateText
}
