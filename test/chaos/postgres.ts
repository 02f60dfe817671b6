import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync } from 'node:fs'
import { rename, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Logger, runMigrations } from 'graphile-worker'
import { embeddedCluster } from '../../src/base/db/embedded-cluster.ts'
import { migrate } from '../../src/base/db/migrate.ts'
import type { Connection } from '../../src/base/db/open-database.ts'
import { createPool } from '../../src/base/db/pool.ts'
import { SOCKET_PORT } from '../../src/base/db/postgres-socket.ts'
import { removeOnExit } from '../harness/clean-up-on-exit.ts'
import { defaultBuild } from '../harness/postgres-build.ts'
import { eventually } from './eventually.ts'

/** A real PostgreSQL that scenarios can stop, kill and restart. */
export interface ChaosPostgres {
  readonly connection: Connection
  /** Shuts down as an operator would: sessions end, and all data is written. */
  stop(): Promise<void>
  /** Kills the postmaster with SIGKILL; resolves when it has exited. */
  kill(): Promise<void>
  /** Starts with recovery if needed; resolves when it takes connections. */
  start(): Promise<void>
  /** Keeps a copy of the database as it is now, like an asynchronous standby that receives nothing from now on. Restarts it. */
  copy(): Promise<Standby>
  /** Stops it and removes its files. */
  remove(): Promise<void>
}

export interface Standby {
  /** Kills PostgreSQL. The standby takes over, without the transactions since it was copied. */
  failOver(): Promise<void>
}

export interface PostgresOptions {
  /** Turns fsync on. Only a power failure would show the difference. */
  readonly durable: boolean
  /** The programs of a PostgreSQL to run with its default settings; undefined: the embedded one. */
  readonly programs?: string | undefined
}

/** Creates and starts a PostgreSQL with all migrations applied. */
export async function createPostgres({ durable, programs }: PostgresOptions): Promise<ChaosPostgres> {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-chaos-'))
  // Started by root, PostgreSQL runs under another account, which must be able to enter the directory.
  chmodSync(directory, 0o711)
  removeOnExit(directory, 'data')
  const cluster = embeddedCluster(directory, programs === undefined ? undefined : defaultBuild(programs))
  const login = {
    user: 'switchyard',
    password: 'chaos',
    gatewayUser: 'switchyard_gateway',
    gatewayPassword: 'chaos',
    deskUser: 'switchyard_desk',
    deskPassword: 'chaos',
    database: 'switchyard',
  }
  // synchronous_commit stays on: without it a SIGKILL would lose commits in PostgreSQL's memory. The gateways of all scenarios run until the end.
  const settings = { max_connections: '300', ...(durable ? {} : { fsync: 'off', full_page_writes: 'off' }) }
  await cluster.create(login)
  const { user, password, database } = login
  let connection: Connection = { host: await cluster.start(settings), port: SOCKET_PORT, user, password, database }
  await migrateAll(connection)

  async function kill() {
    const pid = cluster.runningPid()
    if (pid === undefined) throw new Error('PostgreSQL is not running')
    process.kill(pid, 'SIGKILL')
    await eventually('the postmaster exits', () => cluster.runningPid() === undefined)
  }

  async function start() {
    connection = { ...connection, host: await cluster.start(settings) }
  }

  return {
    get connection() {
      return connection
    },
    stop: () => cluster.stop(),
    kill,
    start,
    async copy() {
      const standby = join(directory, 'standby')
      await cluster.stop()
      await rm(standby, { recursive: true, force: true })
      // Keeps the owner of the files, which only cp does.
      await run('cp', ['--archive', cluster.directory, standby])
      await start()
      return {
        async failOver() {
          await kill()
          await rm(cluster.directory, { recursive: true })
          await rename(standby, cluster.directory)
          await start()
        },
      }
    },
    async remove() {
      await cluster.stop()
      await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Creates the tables of the gateway and of graphile-worker once, before several nodes start at the same time. */
export async function migrateAll(connection: Connection): Promise<void> {
  await migrate(connection)
  const pool = createPool(connection, { max: 1, applicationName: 'chaos set-up' })
  await runMigrations({ pgPool: pool.pg, logger: new Logger(() => () => {}) })
  await pool.end()
}

const run = promisify(execFile)
