import { randomBytes } from 'node:crypto'
import {
  chownSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { chooseAccount } from './embedded-account.ts'
import { embeddedBuild, initdb, type PostgresBuild, runSql, startPostmaster } from './postgres-programs.ts'
import { chooseSocketDir, isSamePlace, removeSocketDir, socketFits } from './postgres-socket.ts'
import { notedSocketDir, removeStalePid, runningPostmaster, signal } from './postmaster-pid.ts'

/** One PostgreSQL cluster on disk. Callers ensure that only one process at a time creates, starts or stops it. */
export interface Cluster {
  /** The directory that holds the files of the cluster. */
  readonly directory: string
  /** False until `create` has finished: a partly created cluster does not count. */
  exists(): boolean
  /**
   * Creates the cluster, with one role that owns one database and two that only log in. None is a superuser; the
   * owner may create databases and make backups.
   */
  create(login: Login): Promise<void>
  /**
   * Makes these files of a backup the cluster, which must not exist yet, and gives them to the account that runs
   * PostgreSQL. They must be in a directory of the same file system.
   */
  adopt(files: string): void
  /** Gives all roles new passwords and the rights of `create`; the cluster must be stopped. */
  resetLogins(login: Login): Promise<void>
  /** Adds the desk role to a cluster of an earlier version, which has none; the cluster must be stopped. */
  addDesk(login: Login): Promise<void>
  /** Starts PostgreSQL in a separate session. Returns the directory of its socket once it takes connections. */
  start(settings: Readonly<Record<string, string>>): Promise<string>
  /**
   * Returns the directory where the socket is while PostgreSQL runs. `noted` is the connection file that the last
   * start wrote. Undefined when this directory is a copy, and `noted` still describes the original: that socket
   * leads to the original database.
   */
  socketDir(noted: { readonly host: string; readonly directory: string }): string | undefined
  /** The process id of the PostgreSQL that runs, or undefined. */
  runningPid(): number | undefined
  /** Asks PostgreSQL to stop, without waiting. */
  requestStop(): void
  /** Stops PostgreSQL and waits until it has written everything. */
  stop(): Promise<void>
}

/** The owner of the database, and the two roles of a gateway: see `DatabaseHandle`. */
export interface Login {
  readonly user: string
  readonly password: string
  readonly gatewayUser: string
  readonly gatewayPassword: string
  readonly deskUser: string
  readonly deskPassword: string
  readonly database: string
}

/** Returns the login that every cluster has, with new passwords. */
export function newLogin(): Login {
  const newPassword = () => randomBytes(24).toString('hex')
  return {
    user: 'switchyard',
    password: newPassword(),
    gatewayUser: 'switchyard_gateway',
    gatewayPassword: newPassword(),
    deskUser: 'switchyard_desk',
    deskPassword: newPassword(),
    database: 'switchyard',
  }
}

/** Prefix of the directory in which a new cluster is prepared. */
const DRAFT = 'postgres.new'

/**
 * The cluster in `<dataDir>/postgres`, logging to `<dataDir>/postgres.log`.
 *
 * @param build by default the PostgreSQL that npm installed; throws when there is none for this platform
 */
export function embeddedCluster(dataDir: string, build: PostgresBuild = embeddedBuild()): Cluster {
  const directory = join(dataDir, 'postgres')
  const logPath = join(dataDir, 'postgres.log')
  const { programs } = build
  const account = () => chooseAccount(directory, [programs])

  return {
    directory,

    exists: () => existsSync(join(directory, 'PG_VERSION')),

    async create(login) {
      const runAs = account()
      removeDrafts(dataDir)
      // Each attempt has its own draft: when a start is killed, its initdb keeps running and writing.
      const draft = mkdtempSync(join(dataDir, `${DRAFT}-`))
      if (runAs.owner) chownSync(draft, runAs.owner.uid, runAs.owner.gid)
      await initdb(runAs, build, draft)
      await runSql(runAs, programs, draft, createLogin(login))
      writeAccess(draft, login)
      renameSync(draft, directory)
      removeDrafts(dataDir)
    },

    adopt(files) {
      const runAs = account()
      requireVersion(files, build)
      if (runAs.owner) {
        const { uid, gid } = runAs.owner
        for (const name of ['', ...readdirSync(files, { recursive: true, encoding: 'utf8' })])
          chownSync(join(files, name), uid, gid)
      }
      renameSync(files, directory)
    },

    async resetLogins(login) {
      const { user, password, gatewayUser, gatewayPassword } = login
      const statements = `ALTER ROLE ${user} REPLICATION PASSWORD '${password}';\nALTER ROLE ${gatewayUser} PASSWORD '${gatewayPassword}';\n`
      await runSql(account(), programs, directory, statements + createDesk(login))
      writeAccess(directory, login)
    },

    async addDesk(login) {
      await runSql(account(), programs, directory, createDesk(login))
      writeAccess(directory, login)
    },

    async start(settings) {
      const runAs = account()
      requireVersion(directory, build)
      const socketDir = chooseSocketDir(runAs, directory)
      const options = { ...settings, listen_addresses: '', unix_socket_directories: socketDir }
      const args = Object.entries(options).flatMap(([name, value]) => ['-c', `${name}=${value}`])
      const deadlineMs = performance.now() + 10_000
      for (;;) {
        removeStalePid(directory)
        const outcome = await startPostmaster(runAs, programs, directory, args, logPath)
        if (outcome === 'ready') return socketDir
        // After the postmaster was killed, its children need a moment to exit. PostgreSQL refuses to start until
        // then.
        const mayPass = /shared memory block|lock file "[^"]+" (already exists|is empty)/.test(outcome)
        if (!mayPass || performance.now() > deadlineMs) throw new Error(explain(outcome, directory, logPath))
        await sleep(100)
      }
    },

    socketDir: noted =>
      socketFits(directory) ? directory : isSamePlace(noted.directory, directory) ? noted.host : undefined,

    runningPid: () => runningPostmaster(directory),

    requestStop() {
      const pid = runningPostmaster(directory)
      if (pid !== undefined) signal(pid, 'SIGINT')
    },

    async stop() {
      const pid = runningPostmaster(directory)
      if (pid === undefined) return
      const socketDir = notedSocketDir(directory)
      // SIGINT is PostgreSQL's fast shutdown: it ends the sessions and writes a checkpoint. The pid file is
      // removed last.
      signal(pid, 'SIGINT')
      const deadlineMs = performance.now() + STOP_TIMEOUT_MS
      while (runningPostmaster(directory) === pid) {
        if (performance.now() > deadlineMs)
          throw new Error(
            `PostgreSQL (process ${pid}) did not stop within ${STOP_TIMEOUT_MS / 1000} s. See ${logPath}.`,
          )
        await sleep(10)
      }
      removeSocketDir(socketDir)
    },
  }
}

const STOP_TIMEOUT_MS = 60_000

/** Removes the drafts of starts that were killed. */
function removeDrafts(dataDir: string): void {
  for (const name of readdirSync(dataDir).filter(name => name.startsWith(DRAFT))) {
    try {
      rmSync(join(dataDir, name), { recursive: true })
    } catch {
      // An initdb of a killed start still writes there. It fails once a file is missing, or ends before our own
      // initdb does; the call after our initdb tries again.
    }
  }
}

/**
 * Lets the roles log in over the socket, and no other role. The file stays that of the account that runs PostgreSQL.
 */
function writeAccess(directory: string, { user, gatewayUser, deskUser }: Login): void {
  const access = [user, gatewayUser, deskUser].map(role => `local all ${role} scram-sha-256\n`)
  writeFileSync(join(directory, 'pg_hba.conf'), access.join(''))
}

/** A backup of an earlier version has no such role. */
const createDesk = ({ user, deskUser, deskPassword }: Login) =>
  [
    `DO $$ BEGIN CREATE ROLE ${deskUser} LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$;`,
    `ALTER ROLE ${deskUser} PASSWORD '${deskPassword}';`,
    `GRANT ${deskUser} TO ${user};`,
    '',
  ].join('\n')

const createLogin = (login: Login) => {
  const { user, password, gatewayUser, gatewayPassword, database } = login
  return [
    // REPLICATION is the right to make backups, which contain nothing that the owner may not read anyway.
    `CREATE ROLE ${user} LOGIN CREATEDB REPLICATION PASSWORD '${password}';`,
    `CREATE ROLE ${gatewayUser} LOGIN PASSWORD '${gatewayPassword}';`,
    // Lets the owner do all that the gateway can, such as reading its queue of jobs.
    `GRANT ${gatewayUser} TO ${user};`,
    createDesk(login),
    `CREATE DATABASE ${database} OWNER ${user};`,
    '',
  ].join('\n')
}

function requireVersion(directory: string, { major }: PostgresBuild): void {
  const version = readFileSync(join(directory, 'PG_VERSION'), 'utf8').trim()
  if (version !== major)
    throw new Error(
      `${directory} was created by PostgreSQL ${version}, but this Switchyard comes with PostgreSQL ${major}. Start the Switchyard version that created it, dump the database, and load the dump into a new data directory.`,
    )
}

function explain(output: string, directory: string, logPath: string): string {
  const owner = statSync(directory).uid
  const reason = /has wrong ownership|Permission denied/.test(output)
    ? `${directory} belongs to user ${owner}; start Switchyard as that user or as root.`
    : /No space left/.test(output)
      ? 'The disk is full; free some space.'
      : `Its output: ${output.trim().split('\n').slice(-6).join('\n')}`
  return `PostgreSQL did not start in ${directory}. ${reason} The whole log is in ${logPath}.`
}
