import type { AttemptOutcome } from '../../domain/handoff.ts'
import type { CustomerBreakers, Health, OfferState } from '../../domain/health.ts'
import { FAILURES_TO_EJECT } from './offer-record.ts'

/**
 * Keeps what one customer's requests do to servers from everybody else: an image that no server can decode, or a prompt that crashes each worker, sent again
 * and again, would eject server after server for all. So each customer has a breaker of its own for what fails, and of a row of faults that ejects
 * for everybody, one customer gives less than is needed. Who is alone loses nothing: its own breaker ejects as soon.
 *
 * @param everybody of offers
 * @param ofOne another one, of offers as one customer finds them: asked of only for who has met faults
 */
export function createCustomerBreakers(everybody: Health, ofOne: Health): CustomerBreakers {
  const books: Books = { everybody, ofOne, troubled: new Set(), rows: new Map(), firstRefused: new Map() }
  return { of: customerId => new HealthOfCustomer(books, customerId) }
}

interface Books {
  readonly everybody: Health
  readonly ofOne: Health
  /** By keys of `ofOne`, those who have met faults, the first of them first. */
  readonly troubled: Set<string>
  /** Of each offer the faults since its last success, by customer. */
  readonly rows: Map<string, Map<string, number>>
  /** Of each offer who was the first to meet a refused key since its last success. */
  readonly firstRefused: Map<string, string>
}

/** A class, since several are made for each request: with closures, each would be eight functions. */
class HealthOfCustomer implements Health {
  readonly #books: Books
  readonly #customerId: string

  constructor(books: Books, customerId: string) {
    this.#books = books
    this.#customerId = customerId
  }

  state(offerId: string): OfferState {
    const { everybody, ofOne } = this.#books
    const state = everybody.state(offerId)
    const key = this.#ownKey(offerId)
    if (key === undefined || state === 'ejected') return state
    const own = ofOne.state(key)
    return own === 'open' ? state : own
  }

  ejectedForMs(offerId: string): number {
    const { everybody, ofOne } = this.#books
    const key = this.#ownKey(offerId)
    const forMs = everybody.ejectedForMs(offerId)
    return key === undefined ? forMs : Math.max(forMs, ofOne.ejectedForMs(key))
  }

  predictMs(...about: Parameters<Health['predictMs']>): ReturnType<Health['predictMs']> {
    return this.#books.everybody.predictMs(...about)
  }

  inFlight(offerId: string): number {
    return this.#books.everybody.inFlight(offerId)
  }

  beginRequest(offerId: string): void {
    const { everybody, ofOne } = this.#books
    everybody.beginRequest(offerId)
    const key = this.#ownKey(offerId)
    if (key !== undefined) ofOne.beginRequest(key)
  }

  endRequest(offerId: string): void {
    const { everybody, ofOne } = this.#books
    everybody.endRequest(offerId)
    const key = this.#ownKey(offerId)
    if (key !== undefined) ofOne.endRequest(key)
  }

  recordSuccess(...[offerId, sample, sentMs]: Parameters<Health['recordSuccess']>): void {
    const { everybody, ofOne, rows, firstRefused } = this.#books
    everybody.recordSuccess(offerId, sample, sentMs)
    if (rows.size > 0) rows.delete(offerId)
    if (firstRefused.size > 0) firstRefused.delete(offerId)
    const key = this.#ownKey(offerId)
    if (key !== undefined) ofOne.recordSuccess(key, sample, sentMs)
  }

  recordFailure(...failure: Parameters<Health['recordFailure']>): void {
    const { everybody, ofOne, troubled } = this.#books
    const [offerId, outcome, retryAfterS, sentMs] = failure
    if (!mayBeOfRequest.has(outcome)) {
      everybody.recordFailure(...failure)
      return
    }
    const key = keyOf(this.#customerId, offerId)
    const isKeptAway = ofOne.state(key) !== 'open'
    remember(troubled, key)
    ofOne.recordFailure(key, outcome, retryAfterS, sentMs)
    const isForAll =
      outcome === 'credential_rejected' ? this.#isSecondRefused(offerId) : this.#isInRow(offerId, isKeptAway)
    if (isForAll) everybody.recordFailure(...failure)
  }

  /** Whether another customer has met a refused key there. */
  #isSecondRefused(offerId: string): boolean {
    const { firstRefused } = this.#books
    const first = firstRefused.get(offerId)
    if (first !== undefined) return first !== this.#customerId
    if (firstRefused.size < KEYS_MAX) firstRefused.set(offerId, this.#customerId)
    return false
  }

  /** Whether a fault counts in everybody's row of them, to which one customer alone adds less than ejects. */
  #isInRow(offerId: string, isKeptAway: boolean): boolean {
    const row = rowOf(this.#books.rows, offerId)
    const faults = row.get(this.#customerId) ?? 0
    if (isKeptAway || faults >= FAULTS_OF_ONE_MAX) return false
    row.set(this.#customerId, faults + 1)
    return true
  }

  /** Undefined where this customer has met no faults, as nearly everywhere. */
  #ownKey(offerId: string): string | undefined {
    const { troubled } = this.#books
    if (troubled.size === 0) return undefined
    const key = keyOf(this.#customerId, offerId)
    return troubled.has(key) ? key : undefined
  }
}

/** What `ofOne` knows an offer by, as one customer finds it. */
export function keyOf(customerId: string, offerId: string): string {
  return `${customerId} ${offerId}`
}

/** Of such a key, whose it is and what of. */
export function ofKey(key: string): { customerId: string; offerId: string } {
  const at = key.indexOf(' ')
  return { customerId: key.slice(0, at), offerId: key.slice(at + 1) }
}

const FAULTS_OF_ONE_MAX = FAILURES_TO_EJECT - 1
const KEYS_MAX = 10_000

/**
 * In which the request may have a part. Without a connection the server has not seen it. A filter before the server may refuse a prompt as if it were the
 * key: AWS with 403 and `{"message":"Forbidden"}`, the content safety of Azure's gateway likewise.
 */
const mayBeOfRequest: ReadonlySet<Exclude<AttemptOutcome, 'answered'>> = new Set([
  'server_error',
  'first_token_timeout',
  'malformed',
  'empty',
  'credential_rejected',
])

function remember(keys: Set<string>, key: string): void {
  if (keys.size >= KEYS_MAX && !keys.has(key)) keys.delete(keys.values().next().value!)
  keys.add(key)
}

function rowOf(rows: Map<string, Map<string, number>>, offerId: string): Map<string, number> {
  let row = rows.get(offerId)
  // Who is left out by then counts anew, which matters no more among so many.
  if (row === undefined || row.size >= KEYS_MAX) {
    if (rows.size >= KEYS_MAX) rows.clear()
    row = new Map()
    rows.set(offerId, row)
  }
  return row
}
