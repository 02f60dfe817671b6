import type { AttemptOutcome } from '../domain/handoff.ts'
import type { Health, HealthOfCustomers } from '../domain/health.ts'

/**
 * Keeps what one customer's requests do to servers from everybody else: an image that no server can decode, or a prompt that crashes each worker, sent again
 * and again, would eject server after server for all. So each customer has a breaker of its own for what fails, and of a row of faults that ejects
 * for everybody, one customer gives less than is needed. Who is alone loses nothing: its own breaker ejects as soon.
 *
 * @param everybody of offers
 * @param ofOne another one, of offers as one customer finds them: asked of only for who has met faults
 */
export function createHealthOfCustomers(everybody: Health, ofOne: Health): HealthOfCustomers {
  /** By keys of `ofOne`, those who have met faults, the first of them first. */
  const troubled = new Set<string>()
  /** Of each offer the faults since its last success, by customer. */
  const rows = new Map<string, Map<string, number>>()
  /** Of each offer who was the first to meet a refused key since its last success. */
  const firstRefused = new Map<string, string>()

  return {
    of(customerId): Health {
      /** Undefined where this customer has met no faults, as nearly everywhere. */
      const ownKey = (offerId: string): string | undefined => {
        if (troubled.size === 0) return undefined
        const key = keyOf(customerId, offerId)
        return troubled.has(key) ? key : undefined
      }
      return {
        state(offerId) {
          const state = everybody.state(offerId)
          const key = ownKey(offerId)
          if (key === undefined || state === 'ejected') return state
          const own = ofOne.state(key)
          return own === 'open' ? state : own
        },
        ejectedForMs(offerId) {
          const key = ownKey(offerId)
          const forMs = everybody.ejectedForMs(offerId)
          return key === undefined ? forMs : Math.max(forMs, ofOne.ejectedForMs(key))
        },
        predictMs: (offerId, request) => everybody.predictMs(offerId, request),
        inFlight: offerId => everybody.inFlight(offerId),
        beginRequest(offerId) {
          everybody.beginRequest(offerId)
          const key = ownKey(offerId)
          if (key !== undefined) ofOne.beginRequest(key)
        },
        endRequest(offerId) {
          everybody.endRequest(offerId)
          const key = ownKey(offerId)
          if (key !== undefined) ofOne.endRequest(key)
        },
        recordSuccess(offerId, sample, sentMs) {
          everybody.recordSuccess(offerId, sample, sentMs)
          if (rows.size > 0) rows.delete(offerId)
          if (firstRefused.size > 0) firstRefused.delete(offerId)
          const key = ownKey(offerId)
          if (key !== undefined) ofOne.recordSuccess(key, sample, sentMs)
        },
        recordFailure(offerId, outcome, retryAfterS, sentMs) {
          if (!mayBeOfRequest.has(outcome)) {
            everybody.recordFailure(offerId, outcome, retryAfterS, sentMs)
            return
          }
          const key = keyOf(customerId, offerId)
          const isKeptAway = ofOne.state(key) !== 'open'
          remember(troubled, key)
          ofOne.recordFailure(key, outcome, retryAfterS, sentMs)
          if (outcome === 'credential_rejected') {
            const first = firstRefused.get(offerId) ?? customerId
            if (first !== customerId) everybody.recordFailure(offerId, outcome, retryAfterS, sentMs)
            else if (firstRefused.size < KEYS_MAX) firstRefused.set(offerId, customerId)
            return
          }
          const row = rowOf(rows, offerId)
          const faults = row.get(customerId) ?? 0
          if (isKeptAway || faults >= FAULTS_OF_ONE_MAX) return
          row.set(customerId, faults + 1)
          everybody.recordFailure(offerId, outcome, retryAfterS, sentMs)
        },
      }
    },
  }
}

/** Of a key of `ofOne`, whose it is and what of. */
export function ofKey(key: string): { customerId: string; offerId: string } {
  const at = key.indexOf(' ')
  return { customerId: key.slice(0, at), offerId: key.slice(at + 1) }
}

const keyOf = (customerId: string, offerId: string) => `${customerId} ${offerId}`

/** One less than eject. */
const FAULTS_OF_ONE_MAX = 4
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
