import { SETTLE_LINGER_S, type Work } from './work.ts'

/** What a call of the ledger costs PostgreSQL: once, and again for each item. In µs of CPU, or in bytes of WAL. */
export interface CallCost {
  readonly perCall: number
  readonly perItem: number
}

/** The cost of each call that requests need. */
export interface LedgerCosts {
  readonly admit: CallCost
  /** Grants bulk leases. */
  readonly grant: CallCost
  readonly handBack: CallCost
  readonly settleStrict: CallCost
  /** Items are requests; each customer among them costs `perCustomer` more. */
  readonly settleBulk: CallCost & { readonly perCustomer: number }
}

/** Calls of one size, as measured. */
export interface MeasuredCalls {
  /** Items of a call. */
  readonly items: number
  readonly costPerCall: number
}

/** The line through two sizes. A cost below 0 is noise of the measurement and counts as 0. */
export function fitCall(small: MeasuredCalls, large: MeasuredCalls): CallCost {
  const perItem = Math.max((large.costPerCall - small.costPerCall) / (large.items - small.items), 0)
  return { perCall: Math.max(small.costPerCall - small.items * perItem, 0), perItem }
}

/** @param ofOne calls in which all requests are of one customer; in the others, each is of another */
export function fitSettleBulk(
  small: MeasuredCalls,
  large: MeasuredCalls,
  ofOne: MeasuredCalls,
): LedgerCosts['settleBulk'] {
  const { perCall, perItem } = fitCall(small, large)
  const perRequest = Math.min(Math.max((ofOne.costPerCall - perCall - perItem) / (ofOne.items - 1), 0), perItem)
  return { perCall, perItem: perRequest, perCustomer: perItem - perRequest }
}

/** Bulk leases that end are handed back once a second (lease-returns.ts). */
const HAND_BACK_S = 1

/**
 * What the work of a second costs.
 *
 * @param nodes the gateways that share the work; each has its own calls
 * @param admissionS how long a call that admits takes: the next one gathers what arrives during it
 */
export function costOfWork(work: Work, costs: LedgerCosts, nodes: number, admissionS: number): number {
  const cost = (itemsPerS: number, waitS: number, { perCall, perItem }: CallCost) =>
    callsPerS(itemsPerS, waitS, nodes) * perCall + itemsPerS * perItem
  return (
    cost(work.strictRequests, admissionS, costs.admit) +
    cost(work.strictRequests, SETTLE_LINGER_S, costs.settleStrict) +
    cost(work.bulkLeases, admissionS, costs.grant) +
    cost(work.bulkLeases, HAND_BACK_S, costs.handBack) +
    cost(work.bulkRequests, SETTLE_LINGER_S, costs.settleBulk) +
    work.bulkCustomers * costs.settleBulk.perCustomer
  )
}

/** The calls that settle, which are as many transactions of the ledger. */
export function settleCallsPerS(work: Work, nodes: number): number {
  return callsPerS(work.strictRequests, SETTLE_LINGER_S, nodes) + callsPerS(work.bulkRequests, SETTLE_LINGER_S, nodes)
}

/** The first item begins a call, which waits for others. */
function callsPerS(itemsPerS: number, waitS: number, nodes: number): number {
  return itemsPerS / (1 + (itemsPerS / nodes) * waitS)
}
