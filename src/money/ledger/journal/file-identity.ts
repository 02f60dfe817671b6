import { execFileSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'

/**
 * Identifies a file while the machine runs. The copy of a file has another identity, also in a clone of its file system
 * or of the machine. The same identity means the same file of the same kernel, so a lock on it excludes every other
 * process. Undefined when the system does not say which boot this is.
 */
export function fileIdentity(path: string): string | undefined {
  bootId ??= readBootId()
  if (bootId === '') return undefined
  const { dev, ino } = statSync(path, { bigint: true })
  return `${bootId}:${dev}:${ino}`
}

/** Empty when it is unknown. */
let bootId: string | undefined

function readBootId(): string {
  try {
    if (process.platform === 'darwin')
      return execFileSync('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid'], { encoding: 'utf8' }).trim()
    return readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  } catch {
    return ''
  }
}
