import type { Nanos } from '../domain/money.ts'
import type { Clock } from '../runtime/clock.ts'

/** Beyond this the customer seen first is forgotten, so that the memory stays bounded. */
const CUSTOMERS_MAX = 100_000

/**
 * Clients may leave before the first token for free, but not without end: each such leave has cost a server its prefill.
 * The first `freePerDay` of a UTC day are free, and beyond them those whose input, with all that was forgiven that day, is worth at most
 * `freeSpendBps` of what the customer was charged that day: who spends much also leaves often. Counted on this node, in memory; a restart
 * forgives.
 */
export interface EarlyLeaves {
  /** Notes one leave whose input is worth `inputNanos`; true when it is to be charged. */
  isCharged(customerId: string, inputNanos: Nanos): boolean
  /** Notes what a customer was charged for a request. */
  noteCharge(customerId: string, costNanos: Nanos): void
}

interface Day {
  leaves: number
  forgivenNanos: Nanos
  spentNanos: Nanos
}

export function createEarlyLeaves(deps: { freePerDay: number; freeSpendBps: bigint; clock: Clock }): EarlyLeaves {
  let day = -1
  const customers = new Map<string, Day>()
  function todayOf(customerId: string): Day {
    const today = Math.floor(deps.clock.epochMs() / 86_400_000)
    if (today !== day) {
      customers.clear()
      day = today
    }
    let known = customers.get(customerId)
    if (known === undefined) {
      if (customers.size >= CUSTOMERS_MAX) customers.delete(customers.keys().next().value!)
      known = { leaves: 0, forgivenNanos: 0n, spentNanos: 0n }
      customers.set(customerId, known)
    }
    return known
  }
  return {
    isCharged(customerId, inputNanos) {
      const today = todayOf(customerId)
      today.leaves += 1
      const forgivenNanos = today.forgivenNanos + inputNanos
      const isFree = today.leaves <= deps.freePerDay || forgivenNanos * 10_000n <= today.spentNanos * deps.freeSpendBps
      if (isFree) today.forgivenNanos = forgivenNanos
      return !isFree
    },
    noteCharge(customerId, costNanos) {
      if (costNanos > 0n) todayOf(customerId).spentNanos += costNanos
    },
  }
}
