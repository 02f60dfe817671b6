import { existsSync, readdirSync, readFileSync, readlinkSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { isSamePlace, socketLockPath } from './postgres-socket.ts'

const hasProc = existsSync('/proc/self/status')

/**
 * Returns the process id of the PostgreSQL that runs in exactly this cluster, or undefined. The result is
 * safe to signal: a copy of a running cluster, such as a snapshot, holds the process id of the original,
 * which this check rejects.
 */
export function runningPostmaster(directory: string): number | undefined {
  const pid = notedPid(directory)
  if (pid === undefined || !isPostgres(pid)) return undefined
  const notedDirectory = pidFileLines(directory)[1] ?? ''
  return (worksIn(directory, pid) ?? isSamePlace(notedDirectory, directory)) ? pid : undefined
}

/** Returns the directory of the socket, as the running PostgreSQL wrote it to postmaster.pid. */
export function notedSocketDir(directory: string): string | undefined {
  return pidFileLines(directory)[4]
}

/** Whether the PostgreSQL with this process id accepts connections. */
export function isReady(directory: string, pid: number | undefined): boolean {
  const lines = pidFileLines(directory)
  return Number(lines[0]) === pid && lines[7]?.trim() === 'ready'
}

/**
 * Removes a postmaster.pid, and the lock of the socket, that no PostgreSQL of this cluster owns any more. The
 * process id in it may belong to another program (after a reboot or in a restarted container), to a zombie,
 * or to the PostgreSQL of the cluster that this one was copied from. PostgreSQL itself would refuse to start.
 * While a PostgreSQL process may still work inside the cluster, the file stays and PostgreSQL decides.
 */
export function removeStalePid(directory: string): void {
  if (notedPid(directory) === undefined || !hasProc || runningPostmaster(directory) !== undefined) return
  const inside = readdirSync('/proc')
    .filter(name => /^\d+$/.test(name) && isPostgres(Number(name)))
    // Undefined if this user may not inspect the process (root in a container, for example): assume that it does.
    .some(name => worksIn(directory, Number(name)) ?? true)
  if (inside) return
  rmSync(pidPath(directory))
  // The lock of the socket holds the same process id.
  rmSync(socketLockPath(directory), { force: true })
}

/** Sends a signal; false when there is no such process. */
export function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name)
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ESRCH') return false
    throw error
  }
}

const pidPath = (directory: string) => join(directory, 'postmaster.pid')
const pidFileLines = (directory: string) => readLines(pidPath(directory))

function notedPid(directory: string): number | undefined {
  const pid = Number(pidFileLines(directory)[0])
  return Number.isInteger(pid) && pid > 0 ? pid : undefined
}

function readLines(path: string): string[] {
  try {
    return readFileSync(path, 'utf8').split('\n')
  } catch (error) {
    if (error instanceof Error && 'code' in error && (error.code === 'ENOENT' || error.code === 'ESRCH')) return []
    throw error
  }
}

/** Whether the process is a living PostgreSQL; without /proc, whether it exists. */
function isPostgres(pid: number): boolean {
  if (!hasProc) return signal(pid, 0)
  const status = readLines(`/proc/${pid}/status`)
  return status[0] === 'Name:\tpostgres' && !status.some(line => line.startsWith('State:\tZ'))
}

/** Whether the process runs in the directory; undefined when this user cannot see it. */
function worksIn(directory: string, pid: number): boolean | undefined {
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(directory)
  } catch {
    return undefined
  }
}
