import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Connection } from '../../src/db/embedded.ts'
import { databaseUrl } from '../cli/run-cli.ts'
import { eventually } from './eventually.ts'
import { endWithUs } from './leave-nothing.ts'

/** One start of a real gateway. */
export interface GatewayProcess {
  readonly name: string
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  readonly dataDir: string
  /** Resolves when the process is gone, with how it went. */
  readonly exited: Promise<Exit>
  /** Undefined while it runs. */
  readonly exit: Exit | undefined
  /** Resolves when it takes requests; rejects with the end of its log when it dies or takes too long. */
  ready(): Promise<void>
  signal(name: NodeJS.Signals): void
  /** Stopped by SIGSTOP, its own or another's. Linux only. */
  isStopped(): boolean
  /** What it wrote to stdout and stderr at this start. */
  log(): string
}

export interface Exit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
}

export interface GatewayStart {
  readonly name: string
  /** Holds a folder for each name: its data directory and its log. */
  readonly directory: string
  readonly configFile: string
  readonly database: Connection
  readonly masterKey: string
  /** As SWITCHYARD_FAILPOINTS has them. */
  readonly failpoints?: string
}

/** Starts `switchyard start` on a free port. It ends at the latest with this process. */
export async function startGateway(start: GatewayStart): Promise<GatewayProcess> {
  const home = join(start.directory, start.name)
  const dataDir = join(home, 'data')
  const logFile = join(home, 'log')
  mkdirSync(home, { recursive: true })
  const port = await freePort()
  const log = openSync(logFile, 'w')
  const child = spawn(process.execPath, [cli, 'start'], {
    cwd: home,
    stdio: ['ignore', log, log],
    env: {
      PATH: process.env.PATH,
      HOST: '127.0.0.1',
      PORT: String(port),
      DATABASE_URL: tcpUrl(start.database),
      SWITCHYARD_DATA: dataDir,
      SWITCHYARD_CONFIG: start.configFile,
      SWITCHYARD_MASTER_KEY: start.masterKey,
      LOG_LEVEL: 'warn',
      ...(start.failpoints !== undefined && { SWITCHYARD_FAILPOINTS: start.failpoints }),
    },
  })
  closeSync(log)
  endWithUs(child)
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
        if (exit !== undefined) throw new Error(`${start.name} died: ${JSON.stringify(exit)}\n${gateway.log()}`)
        return await isReady()
      })
    },
    signal: name => void child.kill(name),
    // After the name in brackets, which may hold anything: https://man7.org/linux/man-pages/man5/proc_pid_stat.5.html
    isStopped: () => /\) T /.test(readFileSync(`/proc/${child.pid}/stat`, 'utf8')),
    log: () => readFileSync(logFile, 'utf8'),
  }
  return gateway
}

const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url))

/** Through the proxy: a host and a port, no socket directory. */
function tcpUrl(connection: Connection): string {
  const url = new URL(databaseUrl(connection))
  url.searchParams.delete('host')
  url.hostname = String(connection.host)
  return url.href
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
