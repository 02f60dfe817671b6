import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../bench/free-port.ts'
import type { Gateway } from './agents.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
const START_MS_MAX = 180_000

export interface StartedGateway extends Gateway {
  /** Its working directory, for commands. */
  readonly directory: string
  /** Host and port of its metrics. */
  readonly metricsAddress: string
}

/**
 * Starts Switchyard as a newcomer does, in an empty directory, and without the model servers of this machine.
 *
 * @param config the rest of its switchyard.yaml
 */
export async function startGateway(home: string, config: string): Promise<StartedGateway & AsyncDisposable> {
  const directory = join(home, 'switchyard')
  mkdirSync(directory)
  writeFileSync(join(directory, 'switchyard.yaml'), `detect: { enabled: false }\n${config}`)
  const port = await freePort()
  const metricsPort = await freePort()
  const child = spawn(join(root, 'bin/switchyard'), ['start'], {
    cwd: directory,
    env: {
      PATH: process.env.PATH,
      HOME: home,
      PORT: String(port),
      METRICS_PORT: String(metricsPort),
      LOG_LEVEL: 'warn',
      NO_COLOR: '1',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'close')
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (output += text))
  const stop = async () => {
    child.kill('SIGTERM')
    await ended
  }
  const deadline = Date.now() + START_MS_MAX
  for (;;) {
    const apiKey = /sk-sy-\w+/.exec(output)?.[0]
    if (apiKey !== undefined && output.includes('is ready')) {
      const baseUrl = `http://127.0.0.1:${port}/v1`
      return { baseUrl, metricsAddress: `127.0.0.1:${metricsPort}`, apiKey, directory, [Symbol.asyncDispose]: stop }
    }
    if (child.exitCode !== null || Date.now() > deadline) {
      await stop()
      throw new Error(`Switchyard did not start:\n${output}`)
    }
    await new Promise(resolve => setTimeout(resolve, 50))
  }
}

/** Runs a command of Switchyard on the data of the gateway, and returns its result. */
export async function command({ directory }: StartedGateway, ...args: string[]): Promise<{ readonly key: string }> {
  const { stdout } = await run(join(root, 'bin/switchyard'), [...args, '--json'], { cwd: directory })
  return JSON.parse(stdout)
}

interface RunOptions {
  readonly cwd: string
  readonly env?: Record<string, string>
  readonly timeoutMs?: number
  readonly mayFail?: boolean
}

/** Brings one commit of a repository into a directory, unless that exists already. */
export async function cloneOnce(directory: string, repository: string, commit: string): Promise<string> {
  if (existsSync(directory)) return directory
  const target = `${directory}.part`
  rmSync(target, { recursive: true, force: true })
  mkdirSync(target)
  for (const args of [
    ['init', '-q'],
    ['fetch', '-q', '--depth', '1', repository, commit],
    ['checkout', '-q', commit],
  ]) {
    await run('git', args, { cwd: target })
  }
  renameSync(target, directory)
  return directory
}

/** Runs a program to its end. Throws an error with its output if it fails, unless it may. */
export async function run(program: string, args: readonly string[], options: RunOptions) {
  const { cwd, env = process.env, timeoutMs, mayFail = false } = options
  const child = spawn(program, args, {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    // A group of its own, so that the time limit ends its children too. Without a limit, Ctrl-C reaches them.
    detached: timeoutMs !== undefined,
  })
  let [output, stdout] = ['', '']
  for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', text => (output += text))
  child.stdout.on('data', text => (stdout += text))
  const timer = timeoutMs === undefined ? undefined : setTimeout(() => process.kill(-child.pid!, 'SIGKILL'), timeoutMs)
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
  clearTimeout(timer)
  if (code !== 0 && !mayFail) throw new Error(`${program} ${args.join(' ')} ended with ${code ?? signal}:\n${output}`)
  return { code: code ?? signal, output, stdout }
}
