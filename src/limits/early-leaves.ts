import type { Nanos } from '../domain/money.ts'
import type { Clock } from '../runtime/clock.ts'

/** Beyond this number the customer seen first is dropped, so memory is bounded. */
const CUSTOMERS_MAX = 100_000

/**
 * Limits how often a customer may leave for free before the first token, since each such request has cost a
 * server its prefill. The first `freePerDay` leaves of a UTC day are free. Later ones are free while the
 * input value forgiven that day stays within `freeSpendBps` of the customer's charges of that day, because
 * customers that spend more also leave more often. Counts are kept in the memory of this node and lost at a
 * restart.
 */
export interface EarlyLeaves {
  /** Counts one leave with input worth `inputNanos`. Returns true when it must be charged. */
  noteLeave(customerId: string, inputNanos: Nanos): boolean
  /** Adds the charge of a request. */
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
    noteLeave(customerId, inputNanos) {
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
