import type { WebSocket } from 'ws'
import { type FromAgent, type ToAgent, toAgentSchema } from '../../wire/api/agent-protocol.ts'

export interface NodeLinkListener {
  onMessage(message: ToAgent): void
  /** The control connection is closed. Called once. `code` and `reason` are those of the WebSocket. */
  onClosed(code: number, reason: string): void
  /** The node wants more idle connections. */
  onWanted(): void
}

/** Without a ping for this many intervals the node is gone. */
const PINGS_MISSED_MAX = 3

/** The control connection to one node, and the count of idle data connections to it. */
export class NodeLink {
  readonly node: string
  readonly #socket: WebSocket
  readonly #idle = new Set<WebSocket>()
  readonly #listener: NodeLinkListener
  #wanted = 0
  #isDraining = false
  #silence: NodeJS.Timeout | undefined
  #pingMs = 0

  constructor(node: string, socket: WebSocket, listener: NodeLinkListener) {
    this.node = node
    this.#socket = socket
    this.#listener = listener
    socket
      .on('message', (data: Buffer) => this.#onMessage(data))
      .on('ping', () => this.#expectPing())
      .once('close', (code, reason) => {
        clearTimeout(this.#silence)
        for (const idle of this.#idle) idle.terminate()
        listener.onClosed(code, reason.toString('utf8'))
      })
  }

  /** How many connections to open now. */
  get missing(): number {
    return this.#isDraining ? 0 : this.#wanted - this.#idle.size
  }

  /** Whether so few connections are idle that the next ones cannot wait. */
  get isShort(): boolean {
    return this.missing * 2 > this.#wanted
  }

  /** Adds an open data connection. `onRequest` is called with its first bytes, in the same turn. */
  adopt(socket: WebSocket): void {
    this.#idle.add(socket)
    let deadline: NodeJS.Timeout | undefined
    // An idle connection that a router has dropped must not be counted as one.
    const expectPing = () => {
      clearTimeout(deadline)
      if (this.#pingMs > 0) deadline = setTimeout(() => socket.terminate(), this.#pingMs * PINGS_MISSED_MAX).unref()
    }
    const leave = () => {
      clearTimeout(deadline)
      if (this.#idle.delete(socket)) this.#listener.onWanted()
    }
    expectPing()
    socket
      .on('ping', () => this.#idle.has(socket) && expectPing())
      .once('message', leave)
      .once('close', leave)
  }

  send(message: FromAgent): void {
    if (this.#socket.readyState === this.#socket.OPEN) this.#socket.send(JSON.stringify(message))
  }

  /** Closes the control connection and the idle ones. Connections with a request stay. */
  close(): void {
    this.#socket.close(1000)
    for (const idle of this.#idle) idle.close(1000)
  }

  terminate(): void {
    this.#socket.terminate()
    for (const idle of this.#idle) idle.terminate()
  }

  #onMessage(data: Buffer): void {
    const message = parse(data)
    if (message === undefined) return
    if (message.type === 'welcome') {
      this.#pingMs = message.ping_seconds * 1000
      this.#expectPing()
    } else if (message.type === 'stock') {
      this.#wanted = message.idle
      this.#listener.onWanted()
    } else if (message.type === 'drain') this.#isDraining = true
    this.#listener.onMessage(message)
  }

  #expectPing(): void {
    clearTimeout(this.#silence)
    if (this.#pingMs > 0) {
      this.#silence = setTimeout(() => this.#socket.terminate(), this.#pingMs * PINGS_MISSED_MAX).unref()
    }
  }
}

/** Returns undefined for a message that this version does not know. */
function parse(data: Buffer): ToAgent | undefined {
  try {
    return toAgentSchema.safeParse(JSON.parse(data.toString('utf8'))).data
  } catch {
    return undefined
  }
}
