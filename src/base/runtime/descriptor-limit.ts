import { readFileSync } from 'node:fs'

/** The smallest soft limit among common systems; Node raises it to the hard limit at its start. */
const USUAL_LIMIT = 1_024

/** Returns how many descriptors (files and sockets) this process may open. Known on Linux only. */
export function descriptorLimit(): number {
  try {
    const [, soft] = /^Max open files\s+(\S+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))!
    return soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft)
  } catch {
    return USUAL_LIMIT
  }
}
