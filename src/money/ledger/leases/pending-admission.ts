import type { Nanos } from '../../../base/domain/money.ts'
import type { BulkRequest, LeaseVerdict } from '../ledger-store.ts'
import type { Admission, AdmissionResult } from './admission.ts'

/** A request for a lease that is not answered yet. */
export type PendingAdmission = PendingStrict | PendingGrant

/** A request for a strict lease. */
export interface PendingStrict {
  readonly kind: 'strict'
  /** Replaced for a retry. */
  request: Admission
  /** The smallest hold that the request accepts. The first try may ask for more. */
  readonly leastNanos: Nanos
  readonly resolve: (result: AdmissionResult) => void
  readonly reject: (error: unknown) => void
  /** When it was sent, or left the line in which it waited for credit. */
  sinceMs: number
  isOverdue: boolean
  isAnswered: boolean
  readonly waitedFor: { settlements: boolean; ownLeases: boolean; otherNodes: boolean }
  /** Its place in a line of requests that wait for credit. Undefined until it waits. */
  place: PlaceInLine | undefined
}

export interface PlaceInLine {
  readonly sinceMs: number
  /** The limit that it waits for: see credit-lines.ts. */
  lineId: string
  /** Its verdict is awaited. */
  isTried: boolean
  /** Its time is over: the next verdict is final. */
  isOver: boolean
  /** Ends its timer. */
  readonly free: () => void
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

/**
 * Returns the same admission, but for all of its `wantNanos` or nothing. Otherwise the answer would be shortened
 * although money is about to come back.
 */
export function allOrNothing(admission: Admission): Admission {
  return withFloor(admission, admission.ask?.wantNanos)
}

/** Returns the admission of an entry with the smallest hold that it accepts. */
export function withLeast({ request, leastNanos }: PendingStrict): Admission {
  return withFloor(request, leastNanos)
}

function withFloor(admission: Admission, floorNanos: Nanos | undefined): Admission {
  const { ask } = admission
  return ask === null || floorNanos === undefined || ask.floorNanos === floorNanos
    ? admission
    : { ...admission, ask: { ...ask, floorNanos } }
}
