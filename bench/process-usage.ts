import { readFileSync } from 'node:fs'

// USER_HZ, the unit of utime and stime, is 100 on every Linux that Node runs on (proc_pid_stat(5)).
const microsPerTick = 10_000

/** CPU time, user and system, that all threads of a process have used so far, in microseconds; null where there is no /proc. */
export function readCpuMicros(pid: number): number | null {
  const stat = readProc(`/proc/${pid}/stat`)
  if (stat === null) return null
  // The second field is the program's name in brackets and may itself hold blanks and brackets.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) * microsPerTick
}

/** Resident memory of a process in MB (10^6 bytes); null where there is no /proc. */
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
