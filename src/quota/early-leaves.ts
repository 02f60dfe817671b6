import type { Clock } from '../domain/clock.ts'

/** Beyond this everybody is forgiven, so that the memory stays bounded. */
const CUSTOMERS_MAX = 100_000

/**
 * Clients may leave before the first token for free, but not without end: each such leave has cost a server its prefill.
 * Counts per customer and UTC day on this node; a restart forgives.
 */
export interface EarlyLeaves {
  /** Notes one leave; true when it is beyond the free ones, so that the input is charged. */
  isCharged(customerId: string): boolean
}

export function createEarlyLeaves({ freePerDay, clock }: { freePerDay: number; clock: Clock }): EarlyLeaves {
  let day = -1
  const leaves = new Map<string, number>()
  return {
    isCharged(customerId) {
      const today = Math.floor(clock.epochMs() / 86_400_000)
      if (today !== day) {
        leaves.clear()
        day = today
      }
      const count = (leaves.get(customerId) ?? 0) + 1
      if (leaves.size >= CUSTOMERS_MAX) leaves.clear()
      leaves.set(customerId, count)
      return count > freePerDay
    },
  }
}
