import { SETTLE_LINGER_MS } from '../settlement/settlement-lanes.ts'
import { isRefusedByWindow } from './admission.ts'
import type { AdmissionDeps } from './admission-deps.ts'
import { type PendingStrict, type Refused, withLeast } from './pending-admission.ts'

/**
 * Decides what a refused request waits for before its next try. Returns undefined when nothing is left to
 * wait for.
 */
export type RetryWait = (entry: PendingStrict, refusal: Refused) => Promise<void> | undefined

/** Other nodes learn of a recall with their next heartbeat. */
const RECALL_WAIT_MS = 1_200
/** Charges of another node are usually committed within this time: its linger and some milliseconds. */
const COMMIT_ELSEWHERE_MS = SETTLE_LINGER_MS * 2
/**
 * How long a request waits for this node's own returns when a smaller hold would do, or when it will be
 * refused in any case.
 */
const BRIEF_WAIT_MS = 500

/**
 * The money or slots that a request was refused for may come back soon, from three places in this order: the
 * holds of requests that ended on this node, when their charges are committed; the unused part of this node's
 * bulk leases; and the leases of other nodes, which the refusal recalled, with the charges those nodes are
 * about to commit. A request waits for each place once. It waits for other nodes only when it cannot run with
 * less than it asked for at first.
 */
export function createRetryWait(
  deps: Pick<AdmissionDeps, 'settlements' | 'book' | 'returns' | 'scheduler'>,
): RetryWait {
  const { settlements, book, returns, scheduler } = deps

  return (entry, refusal) => {
    const { request, waitedFor } = entry
    const { customerId, ask } = request
    const { code, freeNanos, capLeftNanos, isHeldElsewhere, nodes } = refusal
    const isForRequests = isRefusedByWindow(code)
    const isForHolds = code === 'in_flight_budget'
    const canDoWithLess = ask !== null && ask.floorNanos > entry.leastNanos
    // Also when nothing will come back, so that the refusal reports the committed spend.
    if (!isForRequests && !waitedFor.settlements && settlements.has(customerId)) {
      waitedFor.settlements = true
      const settled = settlements.flush(customerId)
      return isForHolds && !canDoWithLess ? settled : briefly(settled)
    }
    const isShort = ask !== null && (freeNanos < ask.floorNanos || capLeftNanos < ask.floorNanos)
    const isLeased = isShort && (isForHolds || canDoWithLess)
    if ((isForRequests || isLeased) && !waitedFor.ownLeases && book.recallCustomer(customerId)) {
      waitedFor.ownLeases = true
      returns.collect()
      const returned = returns.flush(customerId)
      return canDoWithLess ? briefly(returned) : returned
    }
    if (canDoWithLess && !isForRequests) {
      entry.request = withLeast(entry)
      return Promise.resolve()
    }
    // A request at a request limit does not wait for other nodes: a client over its limit would have
    // thousands of requests wait here.
    if (isForHolds && !waitedFor.otherNodes && (isHeldElsewhere || nodes > 1)) {
      waitedFor.otherNodes = true
      return delay(isHeldElsewhere ? RECALL_WAIT_MS : COMMIT_ELSEWHERE_MS)
    }
    return undefined
  }

  function briefly(returned: Promise<void>): Promise<void> {
    return Promise.race([returned, delay(BRIEF_WAIT_MS)])
  }

  function delay(ms: number): Promise<void> {
    return new Promise(resolve => scheduler.after(ms, resolve))
  }
}
