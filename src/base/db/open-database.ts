import { existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Connection } from './connection.ts'
import { connectionErrorMessage, isRestarting, TOO_MANY_CONNECTIONS } from './connection-error.ts'
import { type ConnectionFile, connectionFilePath, readConnectionFile, writeConnectionFile } from './connection-file.ts'
import { codeOf } from './database-fault.ts'
import { type Cluster, embeddedCluster, type Login, newLogin } from './embedded-cluster.ts'
import { tryFileLock } from './file-lock.ts'
import { giveToSameOwner } from './file-owner.ts'
import { inspectServer } from './inspect-server.ts'
import { makeClusterParent } from './make-directory.ts'
import { SOCKET_PORT } from './postgres-socket.ts'
import { onOwnConnection } from './query-once.ts'
import { withSessionOptions } from './session-settings.ts'
import { type DatabaseLog, lockStart, startLockPath } from './start-lock.ts'

export type { Connection }

export interface DatabaseHandle {
  /** Serves requests. May have a role that cannot change the money except through its functions. */
  readonly connection: Connection
  /**
   * Signs people in, and books what they, operators and payment providers order. The same object as `connection` when
   * one role does both.
   */
  readonly desk: Connection
  /** Migrates. The same object as `connection` when one role does both. */
  readonly owner: Connection
  /** True when PostgreSQL lives in the data directory, false when it was given as a URL. */
  readonly embedded: boolean
  /** True when this call started PostgreSQL, false when it found it running. */
  readonly startedByUs: boolean
  /** Closes the database. The last process to do so stops the embedded PostgreSQL. Safe to call twice. */
  close(): Promise<void>
}

export interface DatabaseOptions {
  /** A `postgres://` URL; when absent, the embedded PostgreSQL in `dataDir` is used. */
  readonly databaseUrl?: string | undefined
  /** A `postgres://` URL of the same database with the role that owns the tables; absent: `databaseUrl` has it. */
  readonly ownerUrl?: string | undefined
  /** A `postgres://` URL of the same database with the desk role; absent: `databaseUrl` has it. */
  readonly deskUrl?: string | undefined
  readonly dataDir: string
  readonly log: DatabaseLog
  /** PostgreSQL settings for the embedded cluster, only if this call starts it. Tests turn fsync off here. */
  readonly settings?: Readonly<Record<string, string>>
}

/**
 * Opens the database at `databaseUrl`, or the embedded PostgreSQL of the data directory, created when there is
 * none and started when it does not run. Several processes may hold the same data directory open.
 * Throws an Error that says what to do.
 */
export async function openDatabase(options: DatabaseOptions): Promise<DatabaseHandle> {
  return options.databaseUrl ? openGiven(options.databaseUrl, options) : openEmbedded(options)
}

async function openGiven(databaseUrl: string, { ownerUrl, deskUrl }: DatabaseOptions): Promise<DatabaseHandle> {
  const connection = await usable(databaseUrl, 'DATABASE_URL')
  const desk = deskUrl === undefined ? connection : await usable(deskUrl, 'DATABASE_DESK_URL')
  const owner = ownerUrl === undefined ? connection : await usable(ownerUrl, 'DATABASE_OWNER_URL')
  return { connection, desk, owner, embedded: false, startedByUs: false, close: async () => {} }
}

async function usable(url: string, variable: string): Promise<Connection> {
  const connection: Connection = { connectionString: withSessionOptions(url) }
  const { problem, viaPooler } = await inspectServer(connection, variable).catch(error => {
    throw new Error(`${connectionErrorMessage(error)} Check ${variable} (postgres://user:password@host:5432/database).`)
  })
  if (problem !== undefined) throw new Error(problem)
  return { ...connection, viaPooler }
}

/*
 * Two locks (see file-lock.ts) let any number of processes come and go, even when killed with SIGKILL:
 * - `postgres.start.lock`, exclusive, around every start and stop, so that they happen one after the other;
 * - `postgres.users.lock`, shared by every process that uses the cluster. A process that gets it exclusively
 *   is the last one.
 */
async function openEmbedded({ dataDir: path, log, settings = {} }: DatabaseOptions): Promise<DatabaseHandle> {
  const dataDir = resolve(path)
  makeClusterParent(dataDir)
  const cluster = embeddedCluster(dataDir)
  const startLock = await lockStart(dataDir, log)
  try {
    const running = await findRunning(cluster, dataDir)
    if (running) return holdOpen(cluster, dataDir, log, rolesOf(running), false)
    const started = await start(cluster, dataDir, log, settings)
    try {
      writeConnectionFile(dataDir, started)
      return holdOpen(cluster, dataDir, log, rolesOf(started), true)
    } catch (error) {
      // No process uses this PostgreSQL, so no other process would stop it. The first error is the one to report.
      await cluster.stop().catch(() => {})
      throw error
    }
  } finally {
    startLock.release()
  }
}

const usersLockPath = (dataDir: string) => join(dataDir, 'postgres.users.lock')

function holdOpen(
  cluster: Cluster,
  dataDir: string,
  log: DatabaseLog,
  roles: Pick<DatabaseHandle, 'connection' | 'desk' | 'owner'>,
  startedByUs: boolean,
): DatabaseHandle {
  const path = usersLockPath(dataDir)
  const isNew = !existsSync(path)
  const userLock = tryFileLock(path, 'shared')
  // Switchyard takes this lock exclusively only while it holds the start lock, which this process holds now.
  if (!userLock)
    throw new Error(`${path} is locked by a program that is not Switchyard. Stop that program, then try again.`)
  if (isNew) giveToSameOwner(path)

  // For a process that exits without close(): it cannot wait any more, but it can still ask PostgreSQL to stop.
  const leaveAtExit = () => {
    const startLock = tryFileLock(startLockPath(dataDir), 'exclusive')
    userLock.release()
    const last = startLock && tryFileLock(path, 'exclusive')
    if (last) cluster.requestStop()
    last?.release()
    startLock?.release()
  }
  process.once('exit', leaveAtExit)

  const leave = async () => {
    const startLock = await lockStart(dataDir, log)
    try {
      process.off('exit', leaveAtExit)
      userLock.release()
      const last = tryFileLock(path, 'exclusive')
      if (last) await cluster.stop().finally(() => last.release())
    } finally {
      startLock.release()
    }
  }
  let closing: Promise<void> | undefined
  return {
    ...roles,
    embedded: true,
    startedByUs,
    close() {
      closing ??= leave()
      return closing
    },
  }
}

/** Returns how to reach the PostgreSQL that already runs in the data directory, or undefined when none does. */
async function findRunning(cluster: Cluster, dataDir: string): Promise<ConnectionFile | undefined> {
  const noted = readConnectionFile(dataDir)
  if (!noted) return undefined
  const host = cluster.socketDir(noted)
  if (host === undefined) return undefined
  const running = { ...noted, host }
  const deadlineMs = performance.now() + 60_000
  for (;;) {
    try {
      await onOwnConnection(rolesOf(running).owner, async () => {})
      return running
    } catch (error) {
      const code = codeOf(error)
      if (code === 'ECONNREFUSED' || code === 'ENOENT') return undefined
      // PostgreSQL runs, but all its connections are in use. Later statements report that.
      if (code === TOO_MANY_CONNECTIONS) return running
      if (!isRestarting(error) || performance.now() > deadlineMs)
        throw new Error(
          `${connectionErrorMessage(error)} The connection settings are in ${connectionFilePath(dataDir)}.`,
        )
      await sleep(50)
    }
  }
}

async function start(
  cluster: Cluster,
  dataDir: string,
  log: DatabaseLog,
  settings: Readonly<Record<string, string>>,
): Promise<ConnectionFile> {
  const known = readConnectionFile(dataDir)
  const fresh = newLogin()
  const login: Login = {
    ...fresh,
    password: known?.password ?? fresh.password,
    gatewayPassword: known?.gatewayPassword ?? fresh.gatewayPassword,
    deskPassword: known?.deskPassword ?? fresh.deskPassword,
  }
  const path = connectionFilePath(dataDir)
  if (!cluster.exists()) {
    log.info(`Creating a PostgreSQL database in ${cluster.directory}`)
    await cluster.create(login)
  } else if (!known) {
    const pid = cluster.runningPid()
    if (pid !== undefined)
      throw new Error(
        `PostgreSQL runs (process ${pid}), but ${path} is missing, so Switchyard cannot log in. Stop the Switchyard that uses it; if none does, stop that process with SIGINT. The next start sets a new password.`,
      )
    log.warn(`${path} is missing; giving PostgreSQL new passwords`)
    await cluster.resetLogins(login)
  } else if (known.deskPassword === undefined) await cluster.addDesk(login)
  return { directory: cluster.directory, host: await cluster.start(settings), port: SOCKET_PORT, ...login }
}

function rolesOf(file: ConnectionFile): Pick<DatabaseHandle, 'connection' | 'desk' | 'owner'> {
  const { host, port, database } = file
  const connection = { host, port, database, user: file.gatewayUser, password: file.gatewayPassword }
  return {
    connection,
    // A PostgreSQL that an earlier version started, and still uses, has no desk role until its next start.
    desk:
      file.deskPassword === undefined
        ? connection
        : { host, port, database, user: file.deskUser, password: file.deskPassword },
    owner: { host, port, database, user: file.user, password: file.password },
  }
}
