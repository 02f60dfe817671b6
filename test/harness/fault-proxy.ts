import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Connection } from '../../src/db/embedded.ts'

/** A TCP relay before PostgreSQL that breaks as networks and servers do. Each command holds until the next one. */
export interface FaultProxy {
  /** PostgreSQL, reached through the proxy. */
  readonly connection: Connection
  /** Bytes move as they come. So it begins. */
  pass(): void
  /** Resets every connection, also those that are made from now on. */
  cut(): void
  /** Resets every connection that is open; new ones pass. */
  cutOnce(): void
  /** Connections stay open and are made, and no byte moves. What was sent meanwhile moves when it passes again. */
  stall(): void
  /** Each piece of data arrives so much later, and no more than so many bytes in a second on each connection and way. */
  slow(how: { readonly latencyMs: number; readonly bytesPerSecond: number }): void
  /** Resets every connection; new ones are accepted, and then nobody is there. They never come to life. */
  blackHole(): void
  /** Resets every connection; new ones are told, as by a PostgreSQL that recovers, that it is starting up. */
  startUp(): void
  /**
   * Bytes pass, until so many of PostgreSQL's answers have: then the connection that wants to carry another is reset and the rest of its
   * answer is lost, which is what an unclear commit looks like from outside. Resolves when that has happened; from then on bytes pass.
   */
  cutAfter(bytes: number): Promise<void>
  close(): Promise<void>
}

export async function startFaultProxy(target: Connection): Promise<FaultProxy> {
  const pairs = new Set<Pair>()
  let mode: Mode = { kind: 'pass' }
  let changed = Promise.withResolvers<void>()
  let fuse: { bytesLeft: number; blown: PromiseWithResolvers<void> } | undefined

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
    // Read, so that it is noticed when the client gives up.
    if (mode.kind === 'blackHole') client.resume()
    else if (mode.kind === 'startUp') client.once('data', () => client.end(STARTING_UP))
    else connectPair(pair)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }

  return {
    connection: { ...target, host: '127.0.0.1', port },
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
      fuse = { bytesLeft: bytes, blown: Promise.withResolvers<void>() }
      return fuse.blown.promise
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
    void carry(pair.client, database, () => false)
    void carry(database, pair.client, bytes => blows(pair, database, bytes))
  }

  /** Moves bytes one way until either end closes. `isLast` has written what there was to write when it says so. */
  async function carry(from: Socket, to: Socket, isLast: (bytes: Buffer) => boolean): Promise<void> {
    try {
      for await (const bytes of from as AsyncIterable<Buffer>) {
        await untilItMayMove(bytes.length)
        if (to.destroyed || isLast(bytes)) break
        if (!to.write(bytes)) await Promise.race([once(to, 'drain'), once(to, 'close')])
      }
    } catch {
      // Reset by either end.
    }
    to.end()
    from.destroy()
  }

  async function untilItMayMove(bytes: number): Promise<void> {
    while (mode.kind === 'stall') await changed.promise
    if (mode.kind !== 'slow') return
    const ms = mode.latencyMs + (bytes * 1_000) / mode.bytesPerSecond
    await Promise.race([delay(ms), changed.promise])
  }

  function blows(pair: Pair, database: Socket, bytes: Buffer): boolean {
    if (fuse === undefined) return false
    fuse.bytesLeft -= bytes.length
    if (fuse.bytesLeft >= 0) return false
    const passed = bytes.length + fuse.bytesLeft
    if (passed > 0) pair.client.write(bytes.subarray(0, passed))
    pair.client.resetAndDestroy()
    database.destroy()
    fuse.blown.resolve()
    fuse = undefined
    return true
  }
}

/** An ErrorResponse of PostgreSQL's protocol. */
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
