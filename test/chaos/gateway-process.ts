import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../bench/free-port.ts'
import type { Connection } from '../../src/base/db/open-database.ts'
import { databaseUrl } from '../cli/run-cli.ts'
import { killOnExit } from '../harness/clean-up-on-exit.ts'
import { eventually } from './eventually.ts'

/** A running gateway process. */
export interface GatewayProcess {
  readonly name: string
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  readonly dataDir: string
  /** Resolves when the process has exited. */
  readonly exited: Promise<Exit>
  /** Undefined while the process runs. */
  readonly exit: Exit | undefined
  /** Resolves when the gateway takes requests. Rejects when it exits, with its log, or after 90 s. */
  ready(): Promise<void>
  signal(name: NodeJS.Signals): void
  /** Whether SIGSTOP has stopped the process. Linux only. */
  isStopped(): boolean
  /** Output of this process to stdout and stderr. */
  log(): string
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface GatewayStart {
  readonly name: string
  /** Has a folder for each name, with its data directory and log. */
  readonly directory: string
  readonly configFile: string
  readonly database: Connection
  readonly masterKey: string
  /** Value of SWITCHYARD_FAILPOINTS. */
  readonly failpoints?: string
  /** Default: a free one. */
  readonly port?: number
}

/** Runs `switchyard start`. The process ends at the latest with this process. */
export async function startGateway(start: GatewayStart): Promise<GatewayProcess> {
  const home = join(start.directory, start.name)
  const dataDir = join(home, 'data')
  const logFile = join(home, 'log')
  mkdirSync(home, { recursive: true })
  const port = start.port ?? (await freePort())
  const log = openSync(logFile, 'w')
  const child = spawn(process.execPath, [cli, 'start'], {
    cwd: home,
    stdio: ['ignore', log, log],
    env: {
      PATH: process.env.PATH,
      HOST: '127.0.0.1',
      PORT: String(port),
      METRICS_PORT: '0',
      DATABASE_URL: tcpUrl(start.database),
      SWITCHYARD_DATA: dataDir,
      SWITCHYARD_CONFIG: start.configFile,
      SWITCHYARD_MASTER_KEY: start.masterKey,
      LOG_LEVEL: 'warn',
      ...(start.failpoints !== undefined && { SWITCHYARD_FAILPOINTS: start.failpoints }),
    },
  })
  closeSync(log)
  killOnExit(child)
  let exit: Exit | undefined
  const exited = once(child, 'exit').then(([code, signal]): Exit => {
    exit = { code, signal }
    return exit
  })
  const gateway: GatewayProcess = {
    name: start.name,
    url: `http://127.0.0.1:${port}`,
    dataDir,
    exited,
    get exit() {
      return exit
    },
    async ready() {
      const isReady = () =>
        fetch(`${gateway.url}/readyz`, { signal: AbortSignal.timeout(2_000) }).then(
          response => response.ok,
          () => false,
        )
      await eventually(`${start.name} is ready`, async () => {
        if (exit !== undefined) throw new Error(`${start.name} exited with ${JSON.stringify(exit)}\n${gateway.log()}`)
        return await isReady()
      })
    },
    signal: name => void child.kill(name),
    // The state follows the name in brackets: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    isStopped: () => /\) T /.test(readFileSync(`/proc/${child.pid}/stat`, 'utf8')),
    log: () => readFileSync(logFile, 'utf8'),
  }
  return gateway
}

const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url))

/** The URL of a TCP connection through the proxy, instead of the socket directory. */
function tcpUrl(connection: Connection): string {
  const url = new URL(databaseUrl(connection))
  url.searchParams.delete('host')
  url.hostname = String(connection.host)
  return url.href
}
