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

/** User and system CPU time of all threads of a process, in microseconds; null on systems without /proc. */
export function readCpuMicros(pid: number): number | null {
  const stat = readProc(`/proc/${pid}/stat`)
  if (stat === null) return null
  // The second field is the program name in brackets, and may itself contain blanks and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * microsPerTick
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
