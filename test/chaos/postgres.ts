import { chmodSync, mkdtempSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Logger, runMigrations } from 'graphile-worker'
import type { Connection } from '../../src/db/embedded.ts'
import { embeddedCluster } from '../../src/db/embedded-cluster.ts'
import { migrate } from '../../src/db/migrate.ts'
import { createPool } from '../../src/db/pool.ts'
import { SOCKET_PORT } from '../../src/db/postgres-socket.ts'
import { eventually } from './eventually.ts'
import { removeWithUs } from './leave-nothing.ts'

/** A real PostgreSQL of one's own, that may be stopped, killed and started again. */
export interface ChaosPostgres {
  readonly connection: Connection
  /** As an operator stops it: sessions end, everything is written. */
  stop(): Promise<void>
  /** SIGKILL to the postmaster; resolves when none of its processes is left. */
  kill(): Promise<void>
  /** Recovers if need be; resolves when it takes connections. */
  start(): Promise<void>
  /** Stops it and removes its files. */
  remove(): Promise<void>
}

/** Creates and starts one with all migrations applied. `durable` turns fsync on, which only a power cut would tell apart. */
export async function createPostgres({ durable }: { durable: boolean }): Promise<ChaosPostgres> {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-chaos-'))
  // Root runs PostgreSQL under another account, which has to walk through.
  chmodSync(directory, 0o711)
  removeWithUs(directory, 'data')
  const cluster = embeddedCluster(directory)
  const login = { user: 'switchyard', password: 'chaos', database: 'switchyard' }
  // synchronous_commit stays on: without it a SIGKILL loses what is still in PostgreSQL's own memory.
  const settings = durable ? {} : { fsync: 'off', full_page_writes: 'off' }
  await cluster.create(login)
  let connection: Connection = { host: await cluster.start(settings), port: SOCKET_PORT, ...login }
  await migrate(connection)
  // graphile-worker's own tables; nodes that start at the same time would otherwise all make them.
  const pool = createPool(connection, { max: 1, applicationName: 'chaos set-up' })
  await runMigrations({ pgPool: pool.pg, logger: new Logger(() => () => {}) })
  await pool.end()

  return {
    get connection() {
      return connection
    },
    stop: () => cluster.stop(),
    async kill() {
      const pid = cluster.runningPid()
      if (pid === undefined) throw new Error('PostgreSQL does not run')
      process.kill(pid, 'SIGKILL')
      await eventually('the postmaster is gone', () => cluster.runningPid() === undefined)
    },
    async start() {
      connection = { ...connection, host: await cluster.start(settings) }
    },
    async remove() {
      await cluster.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}
