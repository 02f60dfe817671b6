import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

/** `switchyard start` as an operator runs it, in a process of its own. */
export interface GatewayProcess {
  readonly pid: number
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  /** What it has printed for the operator until now. */
  readonly output: () => string
  /** The first line of its log that is like this, waiting for it if need be. Rejects when the process ends without one. */
  logged(isIt: (line: LogLine) => boolean): Promise<LogLine>
  /** All lines of its log until now. */
  readonly log: readonly LogLine[]
  /** What it said beside its log, as when it gives up. */
  readonly complaints: readonly string[]
  signal(name: NodeJS.Signals): void
  /** Resolves with the exit code, or with the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>
  /** SIGTERM, and again each second until it has ended: a test may leave requests behind that it would wait for. */
  stop(): Promise<number | NodeJS.Signals>
}

export interface LogLine {
  readonly msg: string
  readonly worker?: number
  readonly pid?: number
  readonly [fact: string]: unknown
}

export interface GatewayProcessOptions {
  /** Of the configuration and, unless DATABASE_URL is given, of the data. */
  readonly directory: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

const cli = fileURLToPath(new URL('../../src/cli.js', import.meta.url))

/** Starts it on a free port and waits until it says where it listens. Rejects with what it said when it ends before. */
export async function startGatewayProcess(options: GatewayProcessOptions): Promise<GatewayProcess> {
  const { directory, args = [], env = {} } = options
  const child = spawn(process.execPath, [cli, 'start', ...args], {
    cwd: directory,
    env: { PATH: process.env.PATH!, PORT: '0', LOG_LEVEL: 'info', NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const closed = once(child, 'close')
  const ended = closed.then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals)
  const log: LogLine[] = []
  const complaints: string[] = []
  let output = ''
  let isOver = false
  let change = Promise.withResolvers<void>()
  const changed = () => {
    change.resolve()
    change = Promise.withResolvers()
  }
  child.stdout.setEncoding('utf8').on('data', text => {
    output += text
    changed()
  })
  createInterface({ input: child.stderr }).on('line', line => {
    if (line.startsWith('{')) log.push(JSON.parse(line))
    else complaints.push(line)
    changed()
  })
  closed.then(() => {
    isOver = true
    changed()
  })
  /** Waits until `look` finds something. */
  const waitFor = async <T>(look: () => T | undefined): Promise<T> => {
    for (;;) {
      const found = look()
      if (found !== undefined) return found
      if (isOver) throw new Error(`It ended first: ${complaints.join('\n')}`)
      await change.promise
    }
  }
  const url = await waitFor(() => /is ready: (\S+)\/v1/.exec(output)?.[1])
  return {
    pid: child.pid!,
    url,
    output: () => output,
    log,
    complaints,
    logged: isIt => waitFor(() => log.find(isIt)),
    signal: name => child.kill(name),
    ended,
    async stop() {
      while (!isOver) {
        child.kill('SIGTERM')
        await Promise.race([ended, sleep(1_000, undefined, { ref: false })])
      }
      return ended
    },
  }
}

/** Asks again and again, for at most `forMs`, until `look` resolves with something. */
export async function eventually<T>(look: () => Promise<T | undefined>, forMs = 60_000): Promise<T> {
  const deadlineMs = performance.now() + forMs
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    if (performance.now() > deadlineMs) throw new Error(`It has not come about within ${forMs} ms.`)
    await sleep(20)
  }
}
