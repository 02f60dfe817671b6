import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type Cluster, embeddedCluster, giveToSameOwner, type Login, SOCKET_PORT } from './embedded-cluster.ts'
import { type FileLock, tryFileLock, waitForFileLock } from './file-lock.ts'
import { unusableReason } from './unusable-reason.ts'

/** What to pass to `createPool`, or to spread into a pg client's config. */
export type Connection = Readonly<pg.ClientConfig>

export interface DatabaseHandle {
  readonly connection: Connection
  /** True when PostgreSQL lives in the data directory, false when it was given as a URL. */
  readonly embedded: boolean
  /** True when this call started PostgreSQL, false when it found it running. */
  readonly startedByUs: boolean
  /** Lets go of the database. The last process to do so stops the embedded PostgreSQL. Safe to call twice. */
  close(): Promise<void>
}

export interface DatabaseLog {
  info(message: string): void
  warn(message: string): void
}

export interface DatabaseOptions {
  /** A `postgres://` URL; when absent, the embedded PostgreSQL in `dataDir` is used. */
  readonly databaseUrl?: string | undefined
  readonly dataDir: string
  readonly log: DatabaseLog
  /** PostgreSQL settings for the embedded cluster, only if this call starts it. Tests turn fsync off here. */
  readonly settings?: Readonly<Record<string, string>>
}

/**
 * Opens the database: the one at `databaseUrl`, or the embedded PostgreSQL of the data directory, created when there is
 * none and started when it does not run. Several processes may hold the same data directory open.
 * Throws an Error whose message says what to do.
 */
export async function openDatabase(options: DatabaseOptions): Promise<DatabaseHandle> {
  return options.databaseUrl ? openGiven(options.databaseUrl) : openEmbedded(options)
}

async function openGiven(connectionString: string): Promise<DatabaseHandle> {
  const connection: Connection = { connectionString }
  const problem = await unusableReason(connection).catch(error => {
    throw new Error(`${explainRefusal(error)} Check DATABASE_URL (postgres://user:password@host:5432/database).`)
  })
  if (problem !== undefined) throw new Error(problem)
  return { connection, embedded: false, startedByUs: false, close: async () => {} }
}

/*
 * Two locks make it safe for any number of processes to come and go, also by kill -9 (see file-lock.ts):
 * - `postgres.start.lock`, exclusive, around every start and stop, so that they happen one after the other;
 * - `postgres.users.lock`, shared by everyone who uses the cluster. Who can take it exclusively is the last one.
 */
async function openEmbedded({ dataDir: path, log, settings = {} }: DatabaseOptions): Promise<DatabaseHandle> {
  const dataDir = makeDataDir(resolve(path))
  const cluster = embeddedCluster(dataDir)
  const turn = await waitForTurn(dataDir, log)
  try {
    const running = await findRunning(cluster, dataDir)
    if (running) return holdOpen(cluster, dataDir, log, running, false)
    const facts = await start(cluster, dataDir, log, settings)
    try {
      writeFacts(dataDir, facts)
      return holdOpen(cluster, dataDir, log, connectionOf(facts), true)
    } catch (error) {
      // Nobody uses it, so nobody else would stop it. What went wrong first is what is told.
      await cluster.stop().catch(() => {})
      throw error
    }
  } finally {
    turn.release()
  }
}

const LOGIN = { user: 'switchyard', database: 'switchyard' }
const factsPath = (dataDir: string) => join(dataDir, 'postgres.json')
const usersPath = (dataDir: string) => join(dataDir, 'postgres.users.lock')
const startPath = (dataDir: string) => join(dataDir, 'postgres.start.lock')

function makeDataDir(dataDir: string): string {
  try {
    // As root, PostgreSQL runs under another account and has to walk through. Every file inside has its own mode.
    mkdirSync(dataDir, { recursive: true, mode: process.geteuid?.() === 0 ? 0o711 : 0o700 })
    return dataDir
  } catch (error) {
    throw new Error(
      `Cannot create the data directory ${dataDir} (${codeOf(error)}). Set SWITCHYARD_DATA to another one.`,
    )
  }
}

/** After this long it is no longer somebody else's ordinary start or stop, and whoever waits is told. */
const TOLD_OF_WAIT_AFTER_MS = 3_000

async function waitForTurn(dataDir: string, log: DatabaseLog): Promise<FileLock> {
  const path = startPath(dataDir)
  const tell = () => log.info(`Waiting for another process, which starts or stops the PostgreSQL of ${dataDir}`)
  const wait = setTimeout(tell, TOLD_OF_WAIT_AFTER_MS)
  try {
    const isNew = !existsSync(path)
    // Long enough for somebody else's crash recovery.
    const lock = await waitForFileLock(path, 'exclusive', 360_000)
    if (isNew) giveToSameOwner(path)
    return lock
  } catch (error) {
    // EACCES is of our own look whether the lock may be written to, ERR_SQLITE_ERROR of the attempt to take it.
    if (!['ERR_SQLITE_ERROR', 'EACCES'].includes(String(codeOf(error)))) throw error
    const { uid } = statSync(dataDir)
    throw new Error(
      `Cannot lock ${path}. The data directory belongs to user ${uid}; run this as that user or as root, and keep it on a file system that has locks.`,
    )
  } finally {
    clearTimeout(wait)
  }
}

function holdOpen(
  cluster: Cluster,
  dataDir: string,
  log: DatabaseLog,
  connection: Connection,
  startedByUs: boolean,
): DatabaseHandle {
  const path = usersPath(dataDir)
  const isNew = !existsSync(path)
  const use = tryFileLock(path, 'shared')
  // Only who holds the start lock takes this one exclusively, and we hold the start lock.
  if (!use) throw new Error(`${path} is locked by a program that is not Switchyard. Stop it, then try again.`)
  if (isNew) giveToSameOwner(path)

  // For a process that ends without close(): it cannot wait any more, but it can still tell PostgreSQL to stop.
  const leaveAtExit = () => {
    const turn = tryFileLock(startPath(dataDir), 'exclusive')
    use.release()
    const last = turn && tryFileLock(path, 'exclusive')
    if (last) cluster.requestStop()
    last?.release()
    turn?.release()
  }
  process.once('exit', leaveAtExit)

  const leave = async () => {
    const turn = await waitForTurn(dataDir, log)
    try {
      process.off('exit', leaveAtExit)
      use.release()
      const last = tryFileLock(path, 'exclusive')
      if (last) await cluster.stop().finally(() => last.release())
    } finally {
      turn.release()
    }
  }
  let left: Promise<void> | undefined
  return {
    connection,
    embedded: true,
    startedByUs,
    close() {
      left ??= leave()
      return left
    },
  }
}

/** The connection to the PostgreSQL that already runs in the data directory, or undefined when none does. */
async function findRunning(cluster: Cluster, dataDir: string): Promise<Connection | undefined> {
  const facts = readFacts(dataDir)
  if (!facts) return undefined
  const host = cluster.socketDir(facts)
  if (host === undefined) return undefined
  const connection = connectionOf({ ...facts, host })
  const deadlineMs = performance.now() + 60_000
  for (;;) {
    try {
      await connectOnce(connection)
      return connection
    } catch (error) {
      const code = codeOf(error)
      if (code === 'ECONNREFUSED' || code === 'ENOENT') return undefined
      // All connections taken: it runs, and whoever needs one will hear about it.
      if (code === TOO_MANY_CONNECTIONS) return connection
      if (!isTransient(error) || performance.now() > deadlineMs)
        throw new Error(`${explainRefusal(error)} The facts are in ${factsPath(dataDir)}.`)
      await sleep(50)
    }
  }
}

async function start(
  cluster: Cluster,
  dataDir: string,
  log: DatabaseLog,
  settings: Readonly<Record<string, string>>,
): Promise<Facts> {
  const known = readFacts(dataDir)
  const login: Login = { ...LOGIN, password: known?.password ?? randomBytes(24).toString('hex') }
  if (!cluster.exists()) {
    log.info(`Creating a PostgreSQL database in ${cluster.directory}`)
    await cluster.create(login)
  } else if (!known) {
    const pid = cluster.runningPid()
    if (pid !== undefined)
      throw new Error(
        `PostgreSQL runs (process ${pid}), but ${factsPath(dataDir)} is missing, so nobody can log in. Stop the Switchyard that uses it; if none does, stop that process with SIGINT. The next start gives out a new password.`,
      )
    log.warn(`${factsPath(dataDir)} is missing; giving PostgreSQL a new password`)
    await cluster.resetPassword(login)
  }
  return { directory: cluster.directory, host: await cluster.start(settings), port: SOCKET_PORT, ...login }
}

/** `directory` is the cluster that they were written of: a copy of the data directory has those of the original. */
type Facts = Login & { readonly directory: string; readonly host: string; readonly port: number }

function connectionOf({ directory: _, ...connection }: Facts): Connection {
  return connection
}

function readFacts(dataDir: string): Facts | undefined {
  const path = factsPath(dataDir)
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return undefined
    throw new Error(`Cannot read ${path} (${codeOf(error)}). Run this as the user who owns ${dataDir}, or as root.`)
  }
  try {
    // Without `directory` it was written before that was noted.
    const { directory = join(dataDir, 'postgres'), host, port, user, password, database } = JSON.parse(text)
    if (
      [directory, host, user, password, database].every(value => typeof value === 'string') &&
      typeof port === 'number'
    )
      return { directory, host, port, user, password, database }
  } catch {
    // Falls through: a file that is not JSON is as damaged as one that lacks a field.
  }
  throw new Error(`${path} is damaged. Stop whatever uses this data directory and delete that file; it is made anew.`)
}

function writeFacts(dataDir: string, facts: Facts): void {
  const path = factsPath(dataDir)
  const draft = `${path}.new`
  writeFileSync(draft, `${JSON.stringify(facts, null, 2)}\n`, { mode: 0o600 })
  giveToSameOwner(draft)
  renameSync(draft, path)
}

async function connectOnce(connection: Connection): Promise<void> {
  const client = new pg.Client({ ...connection, connectionTimeoutMillis: 10_000, application_name: 'switchyard open' })
  client.on('error', () => {})
  try {
    await client.connect()
  } finally {
    await client.end().catch(() => {})
  }
}

const TOO_MANY_CONNECTIONS = '53300'

/** Errors of a PostgreSQL that is just starting, stopping or dying: soon it will accept, or not be there at all. */
function isTransient(error: unknown): boolean {
  const code = codeOf(error)
  if (code === undefined) return error instanceof Error && error.message.startsWith('Connection terminated')
  return ['57P01', '57P02', '57P03', 'ECONNRESET', 'EPIPE'].includes(code)
}

function codeOf(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined
}

/** Says in words why a connection failed. Never repeats the URL, which holds a password. */
function explainRefusal(error: unknown): string {
  switch (codeOf(error)) {
    case 'ECONNREFUSED':
      return 'No PostgreSQL listens at that address.'
    case 'ERR_INVALID_URL':
      return 'It is no URL with one host: a password is written percent-encoded (# is %23, / is %2F), and several hosts are not possible.'
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return "The database server's host name does not resolve."
    case '28P01':
    case '28000':
      return 'PostgreSQL refused the user name or password.'
    case '3D000':
      return 'PostgreSQL runs, but has no database of that name.'
    case TOO_MANY_CONNECTIONS:
      return 'PostgreSQL has no free connection left.'
    default:
      return `Cannot connect to PostgreSQL: ${error instanceof Error ? error.message : String(error)}.`
  }
}
