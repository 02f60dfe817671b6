import { readFileSync } from 'node:fs'

// USER_HZ, the unit of utime and stime, is 100 on every Linux that Node runs on (proc_pid_stat(5)).
const microsPerTick = 10_000

/**
 * Starts to measure the CPU time of a process. The returned function gives the microseconds used since; null for no process and on systems
 * without /proc.
 */
export function startCpuWatch(pid: number | null): () => number | null {
  if (pid === null) return () => null
  const before = readCpuMicros(pid)
  return () => {
    const after = readCpuMicros(pid)
    return before === null || after === null ? null : after - before
  }
}

/** As `startCpuWatch`, for processes and their children, including the children that end meanwhile. */
export function startTreeCpuWatch(pids: readonly number[]): () => number | null {
  const read = () => {
    let sum = 0
    for (const pid of pids) {
      const own = readCpuTimes(pid)
      if (own === null) return null
      sum += own.ownMicros + own.endedChildrenMicros
      for (const child of childrenOf(pid)) sum += readCpuMicros(child) ?? 0
    }
    return sum
  }
  const before = read()
  return () => {
    const after = read()
    return before === null || after === null ? null : after - before
  }
}

export function childrenOf(parent: number): number[] {
  if (process.platform !== 'linux') return []
  return readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
}

/** User and system CPU time of all threads of a process, in microseconds; null on systems without /proc. */
export function readCpuMicros(pid: number): number | null {
  return readCpuTimes(pid)?.ownMicros ?? null
}

function readCpuTimes(pid: number): { ownMicros: number; endedChildrenMicros: number } | null {
  const stat = readProc(`/proc/${pid}/stat`)
  if (stat === null) return null
  // The second field is the program name in brackets, and may itself contain blanks and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [utime, stime, cutime, cstime] = fields.slice(11, 15).map(Number) as [number, number, number, number]
  return { ownMicros: (utime + stime) * microsPerTick, endedChildrenMicros: (cutime + cstime) * microsPerTick }
}

/** Resident memory of a process in MB (10^6 bytes); null on systems without /proc. */
export function readRssMb(pid: number): number | null {
  const kib = readProc(`/proc/${pid}/status`)?.match(/^VmRSS:\s+(\d+) kB$/m)?.[1]
  return kib === undefined ? null : (Number(kib) * 1024) / 1e6
}

function readProc(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
}
