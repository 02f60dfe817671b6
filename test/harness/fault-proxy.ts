import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Connection } from '../../src/base/db/open-database.ts'

/** A TCP proxy in front of PostgreSQL that fails like networks and servers do. Each command is in effect until the next one. */
export interface FaultProxy {
  /** Connects to PostgreSQL through the proxy. */
  readonly connection: Connection
  /** Where the proxy listens, for connections with another login. */
  readonly address: { readonly host: string; readonly port: number }
  /** Forwards all bytes. This is the initial mode. */
  pass(): void
  /** Resets open and new connections. */
  cut(): void
  /** Resets open connections. New ones pass. */
  cutOnce(): void
  /** Keeps and accepts connections but forwards no bytes. Bytes sent during the stall are forwarded when it ends. */
  stall(): void
  /**
   * Forwards until a client sends this text, then stalls. Resolves when it has. The text must come in one piece, as a
   * statement without parameters does.
   */
  stallAt(text: string): Promise<void>
  /** Delays each piece of data and limits the bandwidth per connection and direction. */
  slow(how: { readonly latencyMs: number; readonly bytesPerSecond: number }): void
  /** Resets open connections. New ones are accepted and stay dead, even after the next command. */
  blackHole(): void
  /** Resets open connections. New ones get the error of a PostgreSQL that is starting up. */
  startUp(): void
  /**
   * Forwards this many bytes of PostgreSQL's answers, then resets the connection that carries the next byte: the outcome of a
   * commit is then unknown to the client. Resolves after the reset; from then on all bytes pass.
   */
  cutAfter(bytes: number): Promise<void>
  close(): Promise<void>
}

export async function startFaultProxy(target: Connection): Promise<FaultProxy> {
  const pairs = new Set<Pair>()
  let mode: Mode = { kind: 'pass' }
  let changed = Promise.withResolvers<void>()
  let pendingCut: { bytesLeft: number; done: PromiseWithResolvers<void> } | undefined
  let pendingStall: { text: string; done: PromiseWithResolvers<void> } | undefined

  const server = createServer(client => {
    client.on('error', () => {})
    if (mode.kind === 'cut') {
      client.resetAndDestroy()
      return
    }
    const pair: Pair = { client, database: null }
    pairs.add(pair)
    client.once('close', () => {
      pairs.delete(pair)
      pair.database?.destroy()
    })
    // Reading is needed to notice that the client closes the connection.
    if (mode.kind === 'blackHole') client.resume()
    else if (mode.kind === 'startUp') client.once('data', () => client.end(STARTING_UP))
    else connectPair(pair)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }

  const address = { host: '127.0.0.1', port }
  return {
    address,
    connection: { ...target, ...address },
    pass: () => enter({ kind: 'pass' }),
    cut() {
      enter({ kind: 'cut' })
      resetAll()
    },
    cutOnce() {
      enter({ kind: 'pass' })
      resetAll()
    },
    stall: () => enter({ kind: 'stall' }),
    stallAt(text) {
      pendingStall = { text, done: Promise.withResolvers() }
      return pendingStall.done.promise
    },
    slow: how => enter({ kind: 'slow', ...how }),
    blackHole() {
      enter({ kind: 'blackHole' })
      resetAll()
    },
    startUp() {
      enter({ kind: 'startUp' })
      resetAll()
    },
    cutAfter(bytes) {
      enter({ kind: 'pass' })
      pendingCut = { bytesLeft: bytes, done: Promise.withResolvers<void>() }
      return pendingCut.done.promise
    },
    async close() {
      const closed = once(server, 'close')
      server.close()
      enter({ kind: 'cut' })
      resetAll()
      await closed
    },
  }

  function enter(next: Mode): void {
    mode = next
    changed.resolve()
    changed = Promise.withResolvers()
  }

  function resetAll(): void {
    for (const { client } of pairs) client.resetAndDestroy()
  }

  function connectPair(pair: Pair): void {
    const { host = '127.0.0.1', port: databasePort = 5432 } = target
    const database = host.startsWith('/')
      ? connect(join(host, `.s.PGSQL.${databasePort}`))
      : connect(databasePort, host)
    pair.database = database
    database.on('error', () => {})
    database.once('close', () => pair.client.destroySoon())
    void forward(pair.client, database, { onArrival: stallIfDue })
    void forward(database, pair.client, { isCut: bytes => cutIfDue(pair, database, bytes) })
  }

  /** Forwards bytes in one direction until either end closes or `isCut` returns true. */
  async function forward(
    from: Socket,
    to: Socket,
    { onArrival, isCut }: { onArrival?: (bytes: Buffer) => void; isCut?: (bytes: Buffer) => boolean },
  ): Promise<void> {
    try {
      for await (const bytes of from as AsyncIterable<Buffer>) {
        onArrival?.(bytes)
        await waitUntilAllowed(bytes.length)
        if (to.destroyed || isCut?.(bytes)) break
        if (!to.write(bytes)) await Promise.race([once(to, 'drain'), once(to, 'close')])
      }
    } catch {
      // Either end has reset the connection.
    }
    to.end()
    from.destroy()
  }

  async function waitUntilAllowed(bytes: number): Promise<void> {
    while (mode.kind === 'stall') await changed.promise
    if (mode.kind !== 'slow') return
    const ms = mode.latencyMs + (bytes * 1_000) / mode.bytesPerSecond
    await Promise.race([delay(ms), changed.promise])
  }

  function stallIfDue(bytes: Buffer): void {
    if (pendingStall === undefined || !bytes.includes(pendingStall.text)) return
    enter({ kind: 'stall' })
    pendingStall.done.resolve()
    pendingStall = undefined
  }

  /** Counts the bytes towards `cutAfter`. Returns true if it has reset the connection. */
  function cutIfDue(pair: Pair, database: Socket, bytes: Buffer): boolean {
    if (pendingCut === undefined) return false
    pendingCut.bytesLeft -= bytes.length
    if (pendingCut.bytesLeft >= 0) return false
    const passed = bytes.length + pendingCut.bytesLeft
    if (passed > 0) pair.client.write(bytes.subarray(0, passed))
    pair.client.resetAndDestroy()
    database.destroy()
    pendingCut.done.resolve()
    pendingCut = undefined
    return true
  }
}

/** An ErrorResponse message of the PostgreSQL protocol. */
const STARTING_UP = errorResponse({ S: 'FATAL', V: 'FATAL', C: '57P03', M: 'the database system is starting up' })

function errorResponse(fields: Record<string, string>): Buffer {
  const text = Object.entries(fields).map(([name, value]) => `${name}${value}\0`)
  const body = Buffer.from(`${text.join('')}\0`)
  const head = Buffer.from('E....')
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

type Mode =
  | { readonly kind: 'pass' | 'cut' | 'stall' | 'blackHole' | 'startUp' }
  | { readonly kind: 'slow'; readonly latencyMs: number; readonly bytesPerSecond: number }

interface Pair {
  readonly client: Socket
  database: Socket | null
}
