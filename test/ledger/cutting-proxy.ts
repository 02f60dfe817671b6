import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import type { Connection } from '../../src/db/embedded.ts'

/** A TCP relay before PostgreSQL that can lose its answers, which is what an ambiguous commit looks like from outside. */
export interface CuttingProxy {
  readonly connection: Connection
  /** The next answer of PostgreSQL is swallowed and its connection cut. Resolves when that has happened: the work is committed by then. */
  cutNextAnswer(): Promise<void>
  /** While blocked, every connection is cut at once. */
  blocked: boolean
  close(): Promise<void>
}

export async function createCuttingProxy(target: Connection): Promise<CuttingProxy> {
  const sockets = new Set<Socket>()
  let cut: PromiseWithResolvers<void> | undefined
  let blocked = false
  const server = createServer(client => {
    const { host = '127.0.0.1', port = 5432 } = target
    const database = host.startsWith('/') ? connect(join(host, `.s.PGSQL.${port}`)) : connect(port, host)
    for (const socket of [client, database]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        database.destroy()
      })
    }
    if (blocked) client.destroy()
    client.pipe(database)
    database.on('data', answer => {
      if (cut === undefined) {
        client.write(answer)
        return
      }
      client.destroy()
      cut.resolve()
      cut = undefined
    })
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as { port: number }
  return {
    connection: { ...target, host: '127.0.0.1', port },
    cutNextAnswer() {
      cut = Promise.withResolvers<void>()
      return cut.promise
    },
    get blocked() {
      return blocked
    },
    set blocked(now) {
      blocked = now
      if (now) for (const socket of sockets) socket.destroy()
    },
    close() {
      for (const socket of sockets) socket.destroy()
      return new Promise(resolve => server.close(() => resolve()))
    },
  }
}
