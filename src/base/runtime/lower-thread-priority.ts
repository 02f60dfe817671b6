import { getPriority, setPriority } from 'node:os'

/**
 * A third of the scheduler weight of niceness 0, so the main thread gets three quarters of a core that both compete
 * for.
 */
const NICENESS = 5

/**
 * Gives the main thread priority over another thread of this process. Call it on Linux only: other systems have no
 * niceness per thread, and the whole process would lose priority.
 *
 * @param threadId 0 for the calling thread
 */
export function lowerThreadPriority(threadId: number): void {
  // Under `nice -n 15` the thread already has less weight; root would raise it.
  if (getPriority(threadId) < NICENESS) setPriority(threadId, NICENESS)
}
