import type { Nanos } from '../../domain/money.ts'
import type { BulkRequest, LeaseVerdict } from '../ledger-store.ts'
import type { Admission, AdmissionResult } from './admission.ts'

/** A request for a lease that is not answered yet. */
export type PendingAdmission = PendingStrict | PendingGrant

/** A request that waits for a strict lease. */
export interface PendingStrict {
  readonly kind: 'strict'
  /** Replaced for a retry. */
  request: Admission
  /** The smallest hold that the request accepts. The first try may ask for more. */
  readonly leastNanos: Nanos
  readonly resolve: (result: AdmissionResult) => void
  readonly reject: (error: unknown) => void
  readonly sinceMs: number
  isOverdue: boolean
  isAnswered: boolean
  readonly waitedFor: { settlements: boolean; ownLeases: boolean; otherNodes: boolean }
}

/** This node's request for a bulk lease. */
export interface PendingGrant {
  readonly kind: 'bulk'
  readonly request: BulkRequest
  /** Called when the request is answered, whether the lease is granted or not. */
  readonly resolve: () => void
  readonly sinceMs: number
  isOverdue: boolean
  isAnswered: boolean
}

export type Refused = Extract<LeaseVerdict, { kind: 'refused' }>
