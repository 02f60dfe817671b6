import { RENEW_AFTER_MS } from '../../src/identity/auth/key-cache.ts'
import { KNOWN_MS } from '../../src/money/ledger/leases/customer-leases.ts'
import { SETTLE_LINGER_MS } from '../../src/money/ledger/settlement/settlement-lanes.ts'
import { DAY_S, rateAt } from './draw-day.ts'
import type { Population } from './place-customers.ts'

/** What the requests of a cell ask of its PostgreSQL in a second. */
export interface Work {
  readonly requests: number
  /** Requests that a strict lease admits: the customer sent none in the two minutes before. */
  readonly strictRequests: number
  readonly bulkRequests: number
  /** Bulk leases that are granted, and handed back later. */
  readonly bulkLeases: number
  /** Customers in the settlements of bulk leases; a customer counts once in each batch. */
  readonly bulkCustomers: number
  /** Customers that send their first request after a checkpoint: pages are written to the WAL as a whole. */
  readonly firstTouches: number
  /** Keys that a gateway looks up. Keys that it knows are looked up again after half a minute. */
  readonly keyLookUps: number
}

/** checkpoint_timeout of PostgreSQL, unless it is set. */
const CHECKPOINT_S = 300
/** A bulk lease ends with the minute of its requests. */
const LEASE_S = 60
const KNOWN_S = KNOWN_MS / 1000
const RENEW_S = RENEW_AFTER_MS / 1000
export const SETTLE_LINGER_S = SETTLE_LINGER_MS / 1000

/**
 * The work of a cell at a moment when all cells together get so many requests a second. Requests of one customer are independent
 * of each other. Sessions and agents send theirs in groups, which costs less: more of them find a lease.
 */
export function workOf({ counts, shares }: Population, requestsPerS: number): Work {
  let [requests, strictRequests, bulkRequests, bulkLeases, bulkCustomers] = [0, 0, 0, 0, 0]
  let [firstTouches, keyLookUps] = [0, 0]
  counts.forEach((customers, group) => {
    if (customers === 0) return
    const rate = (shares[group] ?? 0) * requestsPerS
    const isKnown = anyWithin(KNOWN_S, rate)
    requests += customers * rate
    strictRequests += customers * rate * (1 - isKnown)
    bulkRequests += customers * rate * isKnown
    bulkLeases += (customers * isKnown * anyWithin(LEASE_S, rate)) / LEASE_S
    bulkCustomers += (customers * anyWithin(SETTLE_LINGER_S, rate * isKnown)) / SETTLE_LINGER_S
    firstTouches += (customers * anyWithin(CHECKPOINT_S, rate)) / CHECKPOINT_S
    keyLookUps += (customers * rate) / (1 + rate * RENEW_S)
  })
  return { requests, strictRequests, bulkRequests, bulkLeases, bulkCustomers, firstTouches, keyLookUps }
}

/** The rows of sums that a cell writes in a day. */
export interface SumRows {
  /** One for each customer and hour with a request. */
  readonly hours: number
  /** One for each customer with a request: of one model, one provider and one key. */
  readonly days: number
}

export function sumRowsOf({ counts, shares }: Population, requestsPerDay: number, peak: number): SumRows {
  let hours = 0
  let days = 0
  counts.forEach((customers, group) => {
    if (customers === 0) return
    const rate = ((shares[group] ?? 0) * requestsPerDay) / DAY_S
    for (const relative of hourlyRates(peak)) hours += customers * anyWithin(3_600, rate * relative)
    days += customers * anyWithin(DAY_S, rate)
  })
  return { hours, days }
}

/** The rate in the middle of each hour of the day, relative to the mean. */
export function hourlyRates(peak: number): readonly number[] {
  return Array.from({ length: 24 }, (_, hour) => rateAt((hour + 0.5) * 3_600, peak))
}

/** The probability of at least one request within so many seconds. */
function anyWithin(seconds: number, requestsPerS: number): number {
  return -Math.expm1(-seconds * requestsPerS)
}
