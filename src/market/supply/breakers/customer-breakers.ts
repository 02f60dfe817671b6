import type { AttemptOutcome } from '../../../base/domain/handoff.ts'
import type { CustomerBreakers, Health, OfferReading, OfferState } from '../../../base/domain/health.ts'
import { deleteOldest } from '../../../base/runtime/collections.ts'
import type { AttemptTally } from './attempt-tally.ts'
import { FAILURES_TO_EJECT } from './offer-record.ts'

/**
 * Isolates customers from the faults that one customer's requests cause. An image that no server can decode,
 * or a prompt that crashes every worker, would otherwise eject server after server for all customers when
 * sent repeatedly. So each customer has its own breaker per offer, and one customer alone contributes fewer
 * faults in a row than the shared breaker needs to eject. A customer that is alone on the gateway loses
 * nothing: its own breaker ejects just as early.
 *
 * @param shared health of the offers, keyed by offer id
 * @param perCustomer health of the offers as each customer has experienced it, keyed by `customerOfferKey`; used
 *   only for customers that have met faults
 * @param attempts counts all attempts; absent: nobody reads the counts
 */
export function createCustomerBreakers(
  shared: Health,
  perCustomer: Health,
  attempts?: AttemptTally,
): CustomerBreakers & OffersKeptAway {
  const state: SharedState = {
    attempts,
    shared,
    perCustomer,
    faultyKeys: new Set(),
    faultsInRow: new Map(),
    firstRefused: new Map(),
  }
  return {
    of: customerId => new CustomerHealth(state, customerId),
    customersKeptAway() {
      const counts = new Map<string, number>()
      for (const key of state.faultyKeys) {
        if (perCustomer.state(key) === 'open') continue
        const { offerId } = splitCustomerOfferKey(key)
        counts.set(offerId, (counts.get(offerId) ?? 0) + 1)
      }
      return counts
    },
  }
}

export interface OffersKeptAway {
  /** Returns by offer from how many single customers it is kept away, or for which it is on trial. */
  customersKeptAway(): ReadonlyMap<string, number>
}

interface SharedState {
  readonly attempts: AttemptTally | undefined
  readonly shared: Health
  readonly perCustomer: Health
  /** Keys of `perCustomer` that have met faults, oldest first. */
  readonly faultyKeys: Set<string>
  /** For each offer, the faults since its last success, by customer. */
  readonly faultsInRow: Map<string, Map<string, number>>
  /** For each offer, the first customer to meet a refused key since its last success. */
  readonly firstRefused: Map<string, string>
}

/** A class rather than closures: several are created for each request, and each would need eight functions. */
class CustomerHealth implements Health {
  readonly #state: SharedState
  readonly #customerId: string

  constructor(state: SharedState, customerId: string) {
    this.#state = state
    this.#customerId = customerId
  }

  state(offerId: string): OfferState {
    const { shared, perCustomer } = this.#state
    const state = shared.state(offerId)
    const key = this.#faultyKey(offerId)
    if (key === undefined || state === 'ejected') return state
    const own = perCustomer.state(key)
    return own === 'open' ? state : own
  }

  ejectedForMs(offerId: string): number {
    const { shared, perCustomer } = this.#state
    const key = this.#faultyKey(offerId)
    const forMs = shared.ejectedForMs(offerId)
    return key === undefined ? forMs : Math.max(forMs, perCustomer.ejectedForMs(key))
  }

  predictMs(...args: Parameters<Health['predictMs']>): ReturnType<Health['predictMs']> {
    return this.#state.shared.predictMs(...args)
  }

  firstTokenP95Ms(offerId: string, inputTokens: number): number | null {
    return this.#state.shared.firstTokenP95Ms(offerId, inputTokens)
  }

  inFlight(offerId: string): number {
    return this.#state.shared.inFlight(offerId)
  }

  read(...args: Parameters<Health['read']>): OfferReading {
    const reading = this.#state.shared.read(...args)
    const [offerId] = args
    return this.#faultyKey(offerId) === undefined ? reading : { ...reading, state: this.state(offerId) }
  }

  beginRequest(offerId: string): void {
    const { shared, perCustomer } = this.#state
    shared.beginRequest(offerId)
    const key = this.#faultyKey(offerId)
    if (key !== undefined) perCustomer.beginRequest(key)
  }

  noteContent(offerId: string): void {
    this.#state.shared.noteContent(offerId)
  }

  endRequest(offerId: string, hadContent?: boolean): void {
    const { shared, perCustomer } = this.#state
    shared.endRequest(offerId, hadContent)
    const key = this.#faultyKey(offerId)
    if (key !== undefined) perCustomer.endRequest(key, hadContent)
  }

  recordSuccess(...[offerId, sample, sentMs]: Parameters<Health['recordSuccess']>): void {
    const { shared, perCustomer, faultsInRow, firstRefused, attempts } = this.#state
    attempts?.noteAnswer(offerId)
    shared.recordSuccess(offerId, sample, sentMs)
    if (faultsInRow.size > 0) faultsInRow.delete(offerId)
    if (firstRefused.size > 0) firstRefused.delete(offerId)
    const key = this.#faultyKey(offerId)
    if (key !== undefined) perCustomer.recordSuccess(key, sample, sentMs)
  }

  recordFailure(...failure: Parameters<Health['recordFailure']>): void {
    const { shared, perCustomer, faultyKeys, attempts } = this.#state
    const [offerId, outcome, retryAfterS, sentMs, why] = failure
    attempts?.noteFailure(offerId, outcome, why)
    if (!mayBeRequestFault.has(outcome)) {
      shared.recordFailure(...failure)
      return
    }
    const key = customerOfferKey(this.#customerId, offerId)
    const isKeptAway = perCustomer.state(key) !== 'open'
    remember(faultyKeys, key)
    perCustomer.recordFailure(key, outcome, retryAfterS, sentMs)
    const isShared =
      outcome === 'credential_rejected' ? this.#isSecondRefused(offerId) : this.#countsInRow(offerId, isKeptAway)
    if (isShared) shared.recordFailure(...failure)
  }

  /** Whether another customer has met a refused key at this offer. */
  #isSecondRefused(offerId: string): boolean {
    const { firstRefused } = this.#state
    const first = firstRefused.get(offerId)
    if (first !== undefined) return first !== this.#customerId
    if (firstRefused.size < KEYS_MAX) firstRefused.set(offerId, this.#customerId)
    return false
  }

  /** Whether a fault counts for the shared breaker. One customer alone adds fewer faults than eject. */
  #countsInRow(offerId: string, isKeptAway: boolean): boolean {
    const row = rowOf(this.#state.faultsInRow, offerId)
    const faults = row.get(this.#customerId) ?? 0
    if (isKeptAway || faults >= FAULTS_OF_ONE_MAX) return false
    row.set(this.#customerId, faults + 1)
    return true
  }

  /**
   * Returns the customer's key for the offer, or undefined if this customer has met no faults there (nearly
   * always).
   */
  #faultyKey(offerId: string): string | undefined {
    const { faultyKeys } = this.#state
    if (faultyKeys.size === 0) return undefined
    const key = customerOfferKey(this.#customerId, offerId)
    return faultyKeys.has(key) ? key : undefined
  }
}

/** Returns the key of an offer in the per-customer health. */
export function customerOfferKey(customerId: string, offerId: string): string {
  return `${customerId} ${offerId}`
}

/** Splits the key of the per-customer health into customer and offer. */
export function splitCustomerOfferKey(key: string): { customerId: string; offerId: string } {
  const at = key.indexOf(' ')
  return { customerId: key.slice(0, at), offerId: key.slice(at + 1) }
}

const FAULTS_OF_ONE_MAX = FAILURES_TO_EJECT - 1
const KEYS_MAX = 10_000

/**
 * Outcomes that the request itself may have caused; without a connection the server has not seen the request.
 * `credential_rejected` is one of them, because a filter in front of the server may refuse a prompt as if the
 * key were wrong: AWS answers 403 with `{"message":"Forbidden"}`, and so does the content safety of Azure's
 * gateway.
 */
const mayBeRequestFault: ReadonlySet<Exclude<AttemptOutcome, 'answered'>> = new Set([
  'server_error',
  'first_token_timeout',
  'malformed',
  'empty',
  'credential_rejected',
])

function remember(keys: Set<string>, key: string): void {
  if (keys.size >= KEYS_MAX && !keys.has(key)) deleteOldest(keys)
  keys.add(key)
}

function rowOf(rows: Map<string, Map<string, number>>, offerId: string): Map<string, number> {
  let row = rows.get(offerId)
  // The counts start again at zero. Among this many customers that makes no difference.
  if (row === undefined || row.size >= KEYS_MAX) {
    if (rows.size >= KEYS_MAX) rows.clear()
    row = new Map()
    rows.set(offerId, row)
  }
  return row
}
