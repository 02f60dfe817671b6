import { connect, type Socket } from 'node:net'

/** What becomes of one request. */
export type Answer = {
  /** Bytes of the body, whatever their framing was. They are overwritten when the call returns. */
  onBytes?: (bytes: Buffer) => void
  /** The status of an answer that came whole, null for one that did not. */
  onEnd: (status: number | null) => void
}

/**
 * The client of the benchmark, over connections that are kept: HTTP/1.1 at the lowest price we know. Load, upstream and PostgreSQL may have to
 * share one core; when they fill it, the figures show them and not the gateway. It trusts what it reads: real clients test the gateway elsewhere.
 * Nor is it the gateway's own client of upstreams, which trusts nobody, and which is part of what is measured.
 */
export class Client {
  readonly #host: string
  readonly #port: number
  readonly #idle: Connection[] = []
  readonly #all = new Set<Connection>()

  /** @param url any of the server's: `http://127.0.0.1:PORT/...` */
  constructor(url: string) {
    const { hostname, port } = new URL(url)
    this.#host = hostname
    this.#port = Number(port)
  }

  /** Opens connections, so that the first requests find them. Rejects when one cannot be opened. */
  async open(connections: number): Promise<void> {
    await Promise.all(Array.from({ length: connections }, () => this.#connect()))
  }

  /** Sends a request (see `requestText`) over a connection that is idle, or a new one. */
  send(request: string, answer: Answer): void {
    const restedSinceMs = performance.now() - idleMsMax
    while (this.#idle.length > 0 && this.#idle[0]!.idleSinceMs < restedSinceMs) this.#idle.shift()!.destroy()
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

/** A POST of JSON as it goes over the wire, with a body in ASCII. */
export function requestText(url: string, headers: Record<string, string>, body: string): string {
  const { host, pathname } = new URL(url)
  const all = { host, 'content-type': 'application/json', ...headers, 'content-length': String(body.length) }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return `POST ${pathname} HTTP/1.1\r\n${lines.join('')}\r\n${body}`
}

/**
 * Node's servers close a connection that nobody used for 5 s; a request that comes at that moment would be lost. And what a stall had opened is not to
 * stay open for the rest of a soak, which counts descriptors.
 */
const idleMsMax = 3000

/** All connections read into it. Otherwise Node allocates 64 KB for each read. */
const readBuffer = Buffer.allocUnsafeSlow(65_536)

type Part = 'head' | 'body' | 'chunk size' | 'chunk' | 'chunk end' | 'last line'

/** One socket, with at most one request under way. */
class Connection {
  idleSinceMs = 0
  readonly #socket: Socket
  readonly #onIdle: () => void
  #answer: Answer | null = null
  #part: Part = 'head'
  #status = 0
  /** Bytes of the body or chunk that are still to come. */
  #left = 0
  /** Of a head or a chunk's size that came in pieces. */
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

  /** Takes the part that begins at `at`, or what is there of it, and returns where the next one begins: `at` itself when more has to come first. */
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
    else this.#socket.destroy(new Error(`an answer of unknown length: ${head}`))
  }
}
