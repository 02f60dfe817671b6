import { type ChildProcess, execFileSync, fork, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, openSync, readFileSync } from 'node:fs'
import type { AddressInfo, Server } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

/** Cores as `taskset` writes them ("1", "0,2"); null where processes are left to the scheduler. */
export type Cores = { subject: string; upstream: string; load: string; database: string } | null

/**
 * Gives the process under test a core of its own and shares the others out as far as they go: with two, everything
 * else is on one; from four on, upstream, load and database have their own. Null without `taskset` or a second core.
 */
export function planCores(): Cores {
  const allowed = allowedCores()
  if (allowed.length < 2) return null
  const subject = String(allowed.at(-1))
  const [first, second = first, third = second] = allowed.slice(0, -1).map(String) as [string, ...string[]]
  if (allowed.length < 4) return { subject, upstream: first, load: second, database: first }
  return { subject, upstream: first, load: second, database: [third, ...allowed.slice(3, -1)].join(',') }
}

/** A process of the benchmark. It is ended by its own pid, at the latest when the benchmark exits. */
export type Running = { pid: number; process: ChildProcess; stop: () => Promise<void> }

/** Variables set over the benchmark's own environment; undefined takes one away. */
export type Environment = Record<string, string | undefined>

type Where = { core: string | undefined; logFile: string; env?: Environment }

/** Starts a script of this folder that reports its port (see `reportPort`), and waits until it has. */
export async function startServer(script: string, args: string[], where: Where) {
  const running = startWorker(script, args, where)
  const port = await nextMessage<number>(running, 20_000, where.logFile)
  return { ...running, origin: `http://127.0.0.1:${port}` }
}

/** Starts a script of this folder that answers jobs (see `answerJobs`). */
export function startWorker(script: string, args: string[], where: Where): Running {
  const [command, ...before] = onCore(where.core, [process.execPath])
  const log = openSync(where.logFile, 'a')
  const child = fork(fileURLToPath(new URL(script, import.meta.url)), args, {
    execPath: command!,
    execArgv: before,
    env: { ...process.env, ...where.env },
    stdio: ['ignore', log, log, 'ipc'],
  })
  return register(child)
}

/** Starts a command line as a user would, with nothing but its environment to talk to it. */
export function startCommand(commandLine: string[], where: Where & { cwd: string }): Running {
  const [command, ...args] = onCore(where.core, commandLine)
  const log = openSync(where.logFile, 'a')
  const child = spawn(command!, args, {
    cwd: where.cwd,
    env: { ...process.env, ...where.env },
    stdio: ['ignore', log, log],
  })
  return register(child)
}

/** Moves a running process, all its threads included, to a core. Children it has already started stay where they are. */
export function pin(pid: number, core: string | undefined): void {
  if (core === undefined) return
  execFileSync('taskset', ['-a', '-c', '-p', core, String(pid)], { stdio: 'ignore' })
}

/** How a process shares its core: as everybody does, or taking only what nobody else wants. */
export type Turn = 'equal' | 'last'

/** From now on a process has its core so, and so do the children it starts. */
export function setTurn(pid: number, turn: Turn): void {
  const policy = turn === 'last' ? '--idle' : '--other'
  const { error, status } = spawnSync('chrt', [policy, '--pid', '0', String(pid)], { stdio: 'ignore' })
  // One that has ended meanwhile is left alone.
  if (error !== undefined || (status !== 0 && existsSync(`/proc/${pid}`))) throw error ?? new Error('chrt failed')
}

/** The cores a process may run on, as `taskset` writes them; null where there is no /proc or no such process. */
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

/** Ends what is still running, by pid. For the way out after a failure or Ctrl-C. */
export async function stopAll(): Promise<void> {
  await Promise.all([...alive].map(running => running.stop()))
}

/** In a child: tells the benchmark the port a server listens on, and leaves when the benchmark is gone. */
export function reportPort(server: Server): void {
  process.send?.((server.address() as AddressInfo).port)
  leaveWithParent()
}

/** In a child: does one job after the other, as the benchmark sends them. */
export function answerJobs<Job, Answer>(work: (job: Job) => Promise<Answer>): void {
  process.on('message', async (job: Job) => process.send!((await work(job)) as object))
  leaveWithParent()
}

// A gateway may need this long to finish its streams and stop its database.
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
  const said = once(child, 'message', { signal }).then(([message]) => message as Message)
  const left = once(child, 'exit', { signal }).then(([code, killedBy]) => {
    throw new Error(`${child.spawnargs.join(' ')} left with ${code ?? killedBy}${logTail(logFile)}`)
  })
  const late = delay(msMax, undefined, { signal }).then(() => {
    throw new Error(`${child.spawnargs.join(' ')} said nothing for ${msMax} ms${logTail(logFile)}`)
  })
  try {
    return await Promise.race([said, left, late])
  } finally {
    settled.abort()
  }
}

/** The last lines of a log, for an error message; empty when there are none. */
export function logTail(logFile: string | null): string {
  if (logFile === null) return ''
  const lines = readFileSync(logFile, 'utf8').trim().split('\n').slice(-15)
  return lines.length === 0 ? '' : `\n${lines.join('\n')}`
}

function leaveWithParent(): void {
  process.on('disconnect', () => process.exit(0))
  // Ctrl-C reaches the whole process group; the benchmark ends its children itself, in the right order.
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
