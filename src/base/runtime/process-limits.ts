import { readFileSync } from 'node:fs'
import { totalmem } from 'node:os'
import { getHeapStatistics } from 'node:v8'

/**
 * Returns the memory that this process may use, in bytes: V8's heap limit, or its share of the container's or
 * the machine's memory if that is less. `processes`: how many processes share the machine.
 */
export function memoryLimitBytes(processes: number): number {
  // 0 without a limit (Node returns the maximum of a 64-bit number on some kernels).
  const container = process.constrainedMemory() || Number.POSITIVE_INFINITY
  return Math.min(getHeapStatistics().heap_size_limit, Math.min(container, totalmem()) / processes)
}

/** The smallest soft limit among common systems; Node raises it to the hard limit at its start. */
const USUAL_LIMIT = 1_024

/** Returns how many descriptors (files and sockets) this process may open. Known on Linux only. */
export function descriptorLimit(path = '/proc/self/limits'): number {
  try {
    const [, soft] = /^Max open files\s+(unlimited|\d+)/m.exec(readFileSync(path, 'utf8')) ?? []
    if (soft === undefined) return USUAL_LIMIT
    return soft === 'unlimited' ? Number.POSITIVE_INFINITY : Number(soft)
  } catch {
    return USUAL_LIMIT
  }
}
