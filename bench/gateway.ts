import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { openDatabase } from '../src/base/db/open-database.ts'
import { createPool, type Pool } from '../src/base/db/pool.ts'
import { freePort } from './free-port.ts'
import {
  type Cores,
  type CpuPriority,
  type Environment,
  logTail,
  type Running,
  setCpuPriority,
  startCommand,
} from './process.ts'
import { childrenOf, startTreeCpuWatch } from './process-usage.ts'

/** A gateway started as an operator would, and ready for requests. */
export type Gateway = {
  /** `http://127.0.0.1:PORT` */
  origin: string
  metricsUrl: string
  pid: number
  /** The pids of the first process and its workers, without PostgreSQL. */
  processes: () => number[]
  dataDir: string
  /** Runs a command such as `ledger audit` in another process and returns its JSON output. Throws when it fails. */
  command: (...args: string[]) => Promise<unknown>
  /**
   * Sets how PostgreSQL competes for the core that it shares with the upstream and perhaps the load; `normal` at the start. Measurements of
   * delays use `idle`, since delays of upstream and load would count as delays of the gateway. In a closed loop, an idle PostgreSQL would
   * fall behind.
   */
  setDatabasePriority: (priority: CpuPriority) => void
  /** Starts to measure the CPU time of PostgreSQL. The returned function gives the microseconds used since; null without /proc. */
  watchDatabaseCpu: () => () => number | null
  stop: () => Promise<void>
}

export type GatewayOptions = {
  /** A directory for this gateway only: its configuration, its log and, without `dataDir`, its data. */
  dir: string
  /** Contents of switchyard.yaml. */
  config: object
  cores: Cores
  /** An existing data directory to use. */
  dataDir?: string
  /** Writes a CPU profile on exit. */
  profile?: boolean
  /** More flags for Node. */
  nodeFlags?: string
}

/**
 * Starts the gateway as `npm start` does, with an embedded PostgreSQL and fsync on, and waits until it is ready. The gateway starts on the
 * database's cores. The benchmark then moves it to its own, so that PostgreSQL, its child process, stays on the database's.
 */
export async function startGateway({
  dir,
  config,
  cores,
  profile,
  nodeFlags = '',
  ...options
}: GatewayOptions): Promise<Gateway> {
  const logFile = join(dir, 'switchyard.log')
  const port = await freePort()
  const metricsPort = await freePort()
  const dataDir = options.dataDir ?? join(dir, 'data')
  const configFile = join(dir, 'switchyard.yaml')
  // JSON is valid YAML.
  writeFileSync(configFile, JSON.stringify(config))
  const env = {
    HOST: '127.0.0.1',
    PORT: String(port),
    METRICS_PORT: String(metricsPort),
    SWITCHYARD_DATA: dataDir,
    SWITCHYARD_CONFIG: configFile,
    NODE_ENV: 'production',
    LOG_LEVEL: 'warn',
    // Never use a database of the user: the benchmark creates and deletes its own.
    DATABASE_URL: undefined,
  }
  const profileDir = join(dir, 'profile')
  if (profile) mkdirSync(profileDir, { recursive: true })
  const profileFlags = profile ? `--cpu-prof --cpu-prof-dir=${profileDir}` : ''
  const gateway = startCommand([program, 'start'], {
    core: cores?.database,
    logFile,
    cwd: root,
    env: { ...env, SWITCHYARD_NODE_FLAGS: `${profileFlags} ${nodeFlags}` },
  })
  const stop = async () => {
    await gateway.stop()
    stopOrphanedPostgres(dataDir)
  }
  const setDatabasePriority = (priority: CpuPriority) => {
    // Only root can move a process out of the idle class.
    if (cores === null || cores.database !== cores.upstream || process.getuid?.() !== 0) return
    for (const postmaster of postmasters(dataDir)) {
      for (const pid of [postmaster, ...childrenOf(postmaster)]) setCpuPriority(pid, priority)
    }
  }
  const origin = `http://127.0.0.1:${port}`
  try {
    await untilReady(`${origin}/readyz`, gateway, logFile)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    origin,
    metricsUrl: `http://127.0.0.1:${metricsPort}/metrics`,
    pid: gateway.pid,
    processes: () => [gateway.pid, ...childrenOf(gateway.pid).filter(runsNode)],
    dataDir,
    command: (...args) => runCli(args, env),
    setDatabasePriority,
    watchDatabaseCpu: () => startTreeCpuWatch(postmasters(dataDir)),
    stop,
  }
}

/** Runs `work` with a connection of the owner to the PostgreSQL of a gateway: its own role may not grant credit. */
export async function withDatabase<T>({ dataDir }: Gateway, work: (pool: Pool) => Promise<T>): Promise<T> {
  const database = await openDatabase({ dataDir, log: { info() {}, warn: console.error } })
  const pool = createPool(database.owner, { max: 1, applicationName: 'bench', statementTimeoutMs: 0 })
  try {
    return await work(pool)
  } finally {
    await pool.end()
    await database.close()
  }
}

const root = fileURLToPath(new URL('..', import.meta.url))
const program = join(root, 'bin/switchyard')
const cli = 'src/cli.js'

async function runCli(args: string[], env: Environment): Promise<unknown> {
  const { stdout } = await promisify(execFile)(process.execPath, [cli, ...args, '--json'], {
    cwd: root,
    env: { ...process.env, ...env },
    // An audit of millions of rows takes minutes.
    timeout: 1_800_000,
  })
  return JSON.parse(stdout)
}

async function untilReady(url: string, gateway: Running, logFile: string): Promise<void> {
  const deadlineMs = performance.now() + 60_000
  while (performance.now() < deadlineMs) {
    if (gateway.process.exitCode !== null) throw new Error(`switchyard exited before it was ready${logTail(logFile)}`)
    const isReady = await fetch(url).then(
      response => response.ok,
      () => false,
    )
    if (isReady) return
    await delay(50)
  }
  throw new Error(`switchyard was not ready within 60 s${logTail(logFile)}`)
}

/** A killed gateway leaves its PostgreSQL running. */
function stopOrphanedPostgres(dataDir: string): void {
  // SIGQUIT is PostgreSQL's immediate shutdown; the data is deleted afterwards anyway.
  for (const pid of postmasters(dataDir)) process.kill(pid, 'SIGQUIT')
}

/** Tells workers from PostgreSQL, the other child of the first process. */
function runsNode(pid: number): boolean {
  return readFileSync(`/proc/${pid}/cmdline`, 'utf8').startsWith(process.execPath)
}

/** Reads the pids of running PostgreSQL servers from the first lines of their postmaster.pid files. */
function postmasters(dataDir: string): number[] {
  if (!existsSync(dataDir)) return []
  return readdirSync(dataDir, { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith('postmaster.pid'))
    .map(name => Number(readFileSync(join(dataDir, name), 'utf8').split('\n')[0]))
    .filter(pid => pid > 1)
}
