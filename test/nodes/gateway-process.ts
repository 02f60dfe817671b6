import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { sourceProgram } from '../cli/run-cli.ts'
import { watchChanges } from '../harness/changes.ts'

/** `switchyard start` in a separate process, as an operator runs it. */
export interface GatewayProcess {
  readonly pid: number
  /** `http://127.0.0.1:<port>` */
  readonly url: string
  /** Returns its standard output until now. */
  readonly output: () => string
  /** Resolves with the first log line that matches, also a later one. Rejects when the process ends without it. */
  logged(matches: (line: LogLine) => boolean): Promise<LogLine>
  /** All lines of its log until now. */
  readonly log: readonly LogLine[]
  /** Lines on standard error that are not log lines, for example why it stops. */
  readonly errorLines: readonly string[]
  signal(name: NodeJS.Signals): void
  /** Resolves with the exit code, or with the signal that ended it. */
  readonly ended: Promise<number | NodeJS.Signals>
  /** Sends SIGINT each second until it has ended: a drain would wait for requests that a test left running. */
  stop(): Promise<number | NodeJS.Signals>
}

export interface LogLine {
  readonly msg: string
  readonly worker?: number
  readonly pid?: number
  readonly [fact: string]: unknown
}

export interface GatewayProcessOptions {
  /** Holds the configuration and, without DATABASE_URL, the data. */
  readonly directory: string
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** The command line that runs `switchyard`. */
  readonly program?: readonly string[]
}

/**
 * Starts it on a free port and waits until it prints its address. Rejects with its error lines when it ends
 * before.
 */
export async function startGatewayProcess(options: GatewayProcessOptions): Promise<GatewayProcess> {
  const { directory, args = [], env = {}, program: [command, ...words] = sourceProgram } = options
  const child = spawn(command!, [...words, 'start', ...args], {
    cwd: directory,
    env: { PATH: process.env.PATH!, PORT: '0', METRICS_PORT: '0', LOG_LEVEL: 'info', NO_COLOR: '1', ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const closed = once(child, 'close')
  const ended = closed.then(([code, signal]) => (code ?? signal) as number | NodeJS.Signals)
  const log: LogLine[] = []
  const errorLines: string[] = []
  let output = ''
  const { changed, isOver, waitFor } = watchChanges(closed)
  const whyNot = () => `The gateway ended first: ${errorLines.join('\n')}`
  child.stdout.setEncoding('utf8').on('data', text => {
    output += text
    changed()
  })
  createInterface({ input: child.stderr }).on('line', line => {
    if (line.startsWith('{')) log.push(JSON.parse(line))
    else errorLines.push(line)
    changed()
  })
  const url = await waitFor(() => /is ready: (\S+)\/v1/.exec(output)?.[1], whyNot)
  return {
    pid: child.pid!,
    url,
    output: () => output,
    log,
    errorLines,
    logged: matches => waitFor(() => log.find(matches), whyNot),
    signal: name => child.kill(name),
    ended,
    async stop() {
      while (!isOver()) {
        child.kill('SIGINT')
        await Promise.race([ended, sleep(1_000, undefined, { ref: false })])
      }
      return ended
    },
  }
}

/** Calls `find` repeatedly until it resolves with a value, for at most `forMs`. */
export async function eventually<T>(find: () => Promise<T | undefined>, forMs = 60_000): Promise<T> {
  const deadlineMs = performance.now() + forMs
  for (;;) {
    const found = await find()
    if (found !== undefined) return found
    if (performance.now() > deadlineMs) throw new Error(`The condition was not met within ${forMs} ms.`)
    await sleep(20)
  }
}
