import { type ChildProcess, execFileSync, fork, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync, readFileSync } from 'node:fs'
import type { AddressInfo, Server } from 'node:net'
import { basename, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

/** Cores in the notation of `taskset` ("1", "0,2"); null when the scheduler places all processes. */
export type Cores = { subject: string; upstream: string; load: string; database: string } | null

/**
 * Reserves one core for the process under test and distributes the others. With two cores, everything else shares one; with four or more,
 * upstream, load and database have separate cores. Null without `taskset` or a second core.
 */
export function planCores(): Cores {
  const allowed = allowedCores()
  if (allowed.length < 2) return null
  const subject = String(allowed.at(-1))
  const [first, second = first, third = second] = allowed.slice(0, -1).map(String) as [string, ...string[]]
  if (allowed.length < 4) return { subject, upstream: first, load: second, database: first }
  return { subject, upstream: first, load: second, database: [third, ...allowed.slice(3, -1)].join(',') }
}

/** A process of the benchmark. It is killed by its pid at the latest when the benchmark exits. */
export type Running = { pid: number; process: ChildProcess; stop: () => Promise<void> }

/** Variables added to the environment of the benchmark; undefined removes one. */
export type Environment = Record<string, string | undefined>

type StartOptions = { core: string | undefined; logFile: string; env?: Environment }

/** Starts the benchmark's upstream. It logs to a file in `dir`. */
export function startUpstream(cores: Cores, dir: string) {
  return startServer('upstream.ts', [], { core: cores?.upstream, logFile: join(dir, 'upstream.log') })
}

/** Starts a script that generates load (see `answerJobs`). It logs to a file in `dir`. */
export function startLoad(script: string, cores: Cores, dir: string): Running {
  return startScript(script, [], { core: cores?.load, logFile: join(dir, `${basename(script)}.log`) })
}

/** Starts a script of this folder that reports its port (see `reportPort`), and waits for the port. */
export async function startServer(script: string, args: string[], options: StartOptions) {
  const { running, message: port } = await startReporter<number>(script, args, options)
  return { ...running, origin: `http://127.0.0.1:${port}` }
}

/** Starts a script of this folder that sends one message when it is ready, and waits for the message. */
export async function startReporter<Message>(script: string, args: string[], options: StartOptions) {
  const running = startScript(script, args, options)
  return { running, message: await nextMessage<Message>(running, 20_000, options.logFile) }
}

function startScript(script: string, args: string[], options: StartOptions): Running {
  const [command, ...before] = onCore(options.core, [process.execPath])
  const log = openSync(options.logFile, 'a')
  const child = fork(fileURLToPath(new URL(script, import.meta.url)), args, {
    execPath: command!,
    execArgv: before,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', log, log, 'ipc'],
  })
  return register(child)
}

/** Starts a command line as a user would, without a message channel. */
export function startCommand(commandLine: string[], options: StartOptions & { cwd: string }): Running {
  const [command, ...args] = onCore(options.core, commandLine)
  const log = openSync(options.logFile, 'a')
  const child = spawn(command!, args, {
    cwd: options.cwd,
    env: { ...process.env, ...options.env },
    stdio: ['ignore', log, log],
  })
  return register(child)
}

/** Moves a running process with all its threads to a core. Its existing children keep their cores. */
export function pin(pid: number, core: string | undefined): void {
  if (core === undefined) return
  execFileSync('taskset', ['-a', '-c', '-p', core, String(pid)], { stdio: 'ignore' })
}

/** How a process competes for its core: normally, or only for time that no other process uses. */
export type CpuPriority = 'normal' | 'idle'

/** Sets the priority of a process and of the children that it starts later. */
export function setCpuPriority(pid: number, priority: CpuPriority): void {
  const policy = priority === 'idle' ? '--idle' : '--other'
  const { error, status } = spawnSync('chrt', [policy, '--pid', '0', String(pid)], { stdio: 'ignore' })
  // Ignore a process that has ended.
  if (error !== undefined || (status !== 0 && existsSync(`/proc/${pid}`))) throw error ?? new Error('chrt failed')
}

/** The cores on which a process may run, in the notation of `taskset`; null without /proc or without such a process. */
export function coresOf(pid: number | 'self'): string | null {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8').match(/^Cpus_allowed_list:\s+(\S+)$/m)?.[1] ?? null
  } catch {
    return null
  }
}

/** Sends a job to a worker and waits for its answer. */
export async function ask<Job extends object, Answer>(worker: Running, job: Job, msMax: number): Promise<Answer> {
  const answer = nextMessage<Answer>(worker, msMax, null)
  worker.process.send(job)
  return answer
}

/** Stops all processes that are still running, by pid. */
export async function stopAll(): Promise<void> {
  await Promise.all([...alive].map(running => running.stop()))
}

/** In a child process: reports the port of a server to the benchmark, and exits when the benchmark exits. */
export function reportPort(server: Server): void {
  process.send?.((server.address() as AddressInfo).port)
  exitWithParent()
}

/** In a child process: runs the jobs that the benchmark sends, and exits when the benchmark exits. */
export function answerJobs<Job, Answer>(work: (job: Job) => Promise<Answer>): void {
  process.on('message', async (job: Job) => process.send!((await work(job)) as object))
  exitWithParent()
}

// A gateway may take this long to finish its streams and stop its database.
const stopMsMax = 20_000
const alive = new Set<Running>()
process.on('exit', () => {
  for (const running of alive) running.process.kill('SIGKILL')
})

function register(child: ChildProcess): Running {
  const running: Running = {
    pid: child.pid ?? -1,
    process: child,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      const isLate = await Promise.race([exited.then(() => false), delay(stopMsMax, true, { ref: false })])
      if (isLate) {
        child.kill('SIGKILL')
        await exited
      }
    },
  }
  alive.add(running)
  child.once('exit', () => alive.delete(running))
  child.once('error', () => alive.delete(running))
  return running
}

async function nextMessage<Message>(running: Running, msMax: number, logFile: string | null): Promise<Message> {
  const { process: child } = running
  const settled = new AbortController()
  const { signal } = settled
  const received = once(child, 'message', { signal }).then(([message]) => message as Message)
  const exited = once(child, 'exit', { signal }).then(([code, killedBy]) => {
    throw new Error(`${child.spawnargs.join(' ')} exited with ${code ?? killedBy}${logTail(logFile)}`)
  })
  const late = delay(msMax, undefined, { signal }).then(() => {
    throw new Error(`${child.spawnargs.join(' ')} sent no message within ${msMax} ms${logTail(logFile)}`)
  })
  try {
    return await Promise.race([received, exited, late])
  } finally {
    settled.abort()
  }
}

/** The last lines of a log, for an error message; empty without lines. */
export function logTail(logFile: string | null): string {
  if (logFile === null) return ''
  const lines = readFileSync(logFile, 'utf8').trim().split('\n').slice(-15)
  return lines.length === 0 ? '' : `\n${lines.join('\n')}`
}

/** In a child process: exits when the benchmark exits. */
export function exitWithParent(): void {
  process.on('disconnect', () => process.exit(0))
  // Ctrl-C reaches the whole process group, but the benchmark stops its children itself, in the right order.
  process.on('SIGINT', () => {})
}

function onCore(core: string | undefined, commandLine: string[]): string[] {
  return core === undefined ? commandLine : ['taskset', '-c', core, ...commandLine]
}

export function allowedCores(): number[] {
  const list = coresOf('self')
  if (list === null) return []
  try {
    execFileSync('taskset', ['--version'], { stdio: 'ignore' })
  } catch {
    return []
  }
  return list.split(',').flatMap(range => {
    const [from, to = from] = range.split('-').map(Number) as [number, number?]
    return Array.from({ length: to - from + 1 }, (_, index) => from + index)
  })
}
