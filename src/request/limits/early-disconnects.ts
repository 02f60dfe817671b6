import type { Nanos } from '../../base/domain/money.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'

/** Beyond this number the customer seen first is dropped, so memory is bounded. */
const CUSTOMERS_MAX = 100_000

/**
 * Limits how often a customer may disconnect for free before the first token, since each such request costs a
 * server its prefill. The first `freePerDay` disconnects of a UTC day are free. Further ones are free while the
 * input forgiven that day is worth at most `freeSpendBps` of the customer's charges of that day, because customers
 * that spend more also disconnect more often. Counts are kept in the memory of this node and lost at a restart.
 */
export interface EarlyDisconnects {
  /** Counts one disconnect with input worth `inputNanos`. Returns true when the input must be charged. */
  noteDisconnect(customerId: string, inputNanos: Nanos): boolean
  /** Adds the charge of a request. */
  noteCharge(customerId: string, costNanos: Nanos): void
}

interface Day {
  disconnects: number
  forgivenNanos: Nanos
  spentNanos: Nanos
}

export function createEarlyDisconnects(deps: {
  freePerDay: number
  freeSpendBps: bigint
  clock: Clock
}): EarlyDisconnects {
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
      known = { disconnects: 0, forgivenNanos: 0n, spentNanos: 0n }
      customers.set(customerId, known)
    }
    return known
  }
  return {
    noteDisconnect(customerId, inputNanos) {
      const today = todayOf(customerId)
      today.disconnects += 1
      const forgivenNanos = today.forgivenNanos + inputNanos
      const isFree =
        today.disconnects <= deps.freePerDay || forgivenNanos * 10_000n <= today.spentNanos * deps.freeSpendBps
      if (isFree) today.forgivenNanos = forgivenNanos
      return !isFree
    },
    noteCharge(customerId, costNanos) {
      if (costNanos > 0n) todayOf(customerId).spentNanos += costNanos
    },
  }
}
