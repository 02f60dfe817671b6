import type { OfferState } from '../../../base/domain/health.ts'
import { type OfferRecord, stateOf } from './offer-record.ts'

/**
 * A change of an offer's state, for the operator's log. `credential_rejected` needs the operator: the
 * upstream refuses our key.
 */
export interface HealthEvent {
  readonly event: 'ejected' | 'restored' | 'credential_rejected'
  readonly offerId: string
  /** How long the offer is kept away, ms; 0 for `restored`. */
  readonly forMs: number
}

/** What this node knows of one offer, for the operator. */
export interface OfferReport {
  readonly offerId: string
  readonly state: OfferState
  readonly inFlight: number
  /** The first-token times of the last answers, ms. */
  readonly recentMs: readonly number[]
}

export function reportOf(offerId: string, record: OfferRecord, nowMs: number): OfferReport {
  const { inFlight, recentMs } = record
  return { offerId, state: stateOf(record, nowMs), inFlight, recentMs: [...recentMs] }
}
