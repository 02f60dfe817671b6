import { connect, type Socket } from 'node:net'

/** Callbacks for the answer to one request. */
export type Answer = {
  /** Receives bytes of the body without their framing. The buffer is reused after the call. */
  onBytes?: (bytes: Buffer) => void
  /** Receives the status of a complete answer, or null for an incomplete one. */
  onEnd: (status: number | null) => void
}

/**
 * The HTTP/1.1 client of the benchmark, with kept-alive connections and as little CPU time as possible. Load, upstream and PostgreSQL may
 * have to share one core; if they fill it, the figures measure them instead of the gateway. The client does not validate answers. The
 * gateway's own upstream client does, and is part of what is measured.
 */
export class Client {
  readonly #host: string
  readonly #port: number
  readonly #idle: Connection[] = []
  readonly #all = new Set<Connection>()

  /** @param url any URL of the server: `http://127.0.0.1:PORT/...` */
  constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.#host = hostname
    this.#port = Number(port)
  }

  /** Opens connections ahead of the first requests. Rejects when one cannot be opened. */
  async open(connections: number): Promise<void> {
    await Promise.all(Array.from({ length: connections }, () => this.#connect()))
  }

  /** Sends a request (see `requestText`) over an idle connection or a new one. */
  send(request: string, answer: Answer): void {
    const expiredBeforeMs = performance.now() - idleMsMax
    while (this.#idle.length > 0 && this.#idle[0]!.idleSinceMs < expiredBeforeMs) this.#idle.shift()!.destroy()
    const connection = this.#idle.pop()
    if (connection === undefined) {
      this.#connect().then(
        () => this.send(request, answer),
        () => answer.onEnd(null),
      )
    } else connection.send(request, answer)
  }

  close(): void {
    for (const connection of this.#all) connection.destroy()
  }

  async #connect(): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      const connection: Connection = new Connection(this.#host, this.#port, {
        onIdle: () => {
          connection.idleSinceMs = performance.now()
          this.#idle.push(connection)
          resolve()
        },
        onLost: error => {
          this.#all.delete(connection)
          const index = this.#idle.indexOf(connection)
          if (index !== -1) this.#idle.splice(index, 1)
          reject(error)
        },
      })
      this.#all.add(connection)
    })
  }
}

/** A POST request with an ASCII JSON body, as bytes on the wire. */
export function requestText(url: string, headers: Record<string, string>, body: string): string {
  const { host, pathname } = new URL(url)
  const all = { host, 'content-type': 'application/json', ...headers, 'content-length': String(body.length) }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST ${pathname} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}

/**
 * Node's servers close connections after 5 s without a request; a request sent at that moment would be lost. A soak counts descriptors, so
 * connections that a stall opened must close too.
 */
const idleMsMax = 3000

/** Shared by all connections, since Node would otherwise allocate 64 KB per read. */
const readBuffer = Buffer.allocUnsafeSlow(65_536)

type Part = 'head' | 'body' | 'chunk size' | 'chunk' | 'chunk end' | 'last line'

/** One socket, with at most one request in flight. */
class Connection {
  idleSinceMs = 0
  readonly #socket: Socket
  readonly #onIdle: () => void
  #answer: Answer | null = null
  #part: Part = 'head'
  #status = 0
  /** Bytes of the body or chunk not received yet. */
  #left = 0
  /** The incomplete head or chunk size received so far. */
  #rest: Buffer | null = null

  constructor(host: string, port: number, on: { onIdle: () => void; onLost: (error: Error) => void }) {
    this.#onIdle = on.onIdle
    let failure = new Error('the connection was closed')
    const onread = {
      buffer: readBuffer,
      callback: (length: number) => {
        this.#read(readBuffer.subarray(0, length))
        return true
      },
    }
    this.#socket = connect({ host, port, noDelay: true, onread })
      .once('connect', on.onIdle)
      .once('error', error => {
        failure = error
      })
      .once('close', () => {
        on.onLost(failure)
        this.#end(null)
      })
  }

  send(request: string, answer: Answer): void {
    this.#answer = answer
    this.#socket.write(request, 'latin1')
  }

  destroy(): void {
    this.#socket.destroy()
  }

  #end(status: number | null): void {
    const answer = this.#answer
    this.#answer = null
    answer?.onEnd(status)
  }

  #finish(): void {
    this.#part = 'head'
    this.#onIdle()
    this.#end(this.#status)
  }

  #read(bytes: Buffer): void {
    const all = this.#rest === null ? bytes : Buffer.concat([this.#rest, bytes])
    let at = 0
    for (let next = this.#take(all, at); next > at; next = this.#take(all, at)) at = next
    this.#rest = at < all.length ? Buffer.from(all.subarray(at)) : null
  }

  /** Consumes the part that begins at `at`, and returns the start of the next part, or `at` itself when more bytes are needed. */
  #take(all: Buffer, at: number): number {
    switch (this.#part) {
      case 'head': {
        const end = all.indexOf('\r\n\r\n', at)
        if (end === -1) return at
        this.#readHead(all.toString('latin1', at, end))
        return end + 4
      }
      case 'chunk size': {
        const end = all.indexOf('\r\n', at)
        if (end === -1) return at
        this.#left = Number.parseInt(all.toString('latin1', at, end), 16)
        this.#part = this.#left === 0 ? 'last line' : 'chunk'
        return end + 2
      }
      case 'body':
      case 'chunk': {
        const to = Math.min(all.length, at + this.#left)
        if (to > at) this.#answer?.onBytes?.(all.subarray(at, to))
        this.#left -= to - at
        if (this.#left > 0) return to
        if (this.#part === 'chunk') this.#part = 'chunk end'
        else this.#finish()
        return to
      }
      case 'chunk end':
      case 'last line':
        if (all.length < at + 2) return at
        if (this.#part === 'last line') this.#finish()
        else this.#part = 'chunk size'
        return at + 2
    }
  }

  #readHead(head: string): void {
    this.#status = Number(head.slice(9, 12))
    const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
    if (length !== undefined) {
      this.#part = 'body'
      this.#left = Number(length)
      if (this.#left === 0) this.#finish()
    } else if (/\r\ntransfer-encoding: *chunked/i.test(head)) this.#part = 'chunk size'
    else this.#socket.destroy(new Error(`the answer has neither a length nor chunks: ${head}`))
  }
}
