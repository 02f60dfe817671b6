import type { AccountLimits, KeyLimit, MemberLimit } from '../../../base/domain/caller.ts'
import type { Hold } from '../../../base/domain/handoff.ts'
import type { Nanos } from '../../../base/domain/money.ts'
import type { WindowCounts } from '../../../base/domain/windows.ts'
import type { CancelSignal } from '../../../base/runtime/cancel-signal.ts'

/** A request that asks to run. */
export interface Admission {
  /** UUIDv7. Also the id of the strict lease. */
  readonly requestId: string
  readonly customerId: string
  readonly keyId: string
  /** The requested model. The lease keeps it for the usage row that the reaper may write. */
  readonly modelId: string
  readonly limits: AccountLimits
  /** Null for keys without a spend limit. */
  readonly keyLimit: KeyLimit | null
  /** The limit of the member that made the key; null without a limit. */
  readonly memberLimit: MemberLimit | null
  /**
   * `wantNanos` is the worst case. `floorNanos` is the smallest useful hold, and equals the worst case when
   * max_tokens is explicit. The hold is the smallest of `wantNanos`, the free balance, and what the daily cap
   * and the limits of the key and the member leave, if that is at least the floor. Null only counts the request in the windows,
   * because no server could serve it.
   */
  readonly ask: { readonly wantNanos: Nanos; readonly floorNanos: Nanos } | null
  /**
   * Set for a retry after a refusal for money: the end of the minute in which the request was counted, so
   * that it is counted once.
   */
  readonly countedUntilEpochMs?: number
  /**
   * How long the request may wait, in line, for credit that running requests of its customer hold, ms. Aborting the
   * signal ends the wait. Undefined: not at all.
   */
  readonly creditWait?: { readonly forMs: number; readonly signal: CancelSignal } | undefined
}

export type RefusalCode =
  | 'rate_limit_exceeded'
  | 'daily_limit_exceeded'
  | 'insufficient_credits'
  | 'in_flight_budget'
  | 'daily_spend_cap_reached'
  | 'key_spend_limit_reached'
  | 'member_spend_limit_reached'
  /** A payment was taken back after it was spent. */
  | 'account_in_debt'

/**
 * Whether a request limit of the minute or the day refused the request. A request refused by a window is not
 * counted in the windows.
 */
export function isRefusedByWindow(code: RefusalCode): boolean {
  return code === 'rate_limit_exceeded' || code === 'daily_limit_exceeded'
}

export type AdmissionResult =
  | {
      readonly kind: 'granted'
      /** Held by the strict lease with the id of the request, or by a bulk lease. Pass it to the settlement. */
      readonly hold: Hold
      readonly windows: WindowCounts
      /** How long it waited for credit; undefined if it did not. */
      readonly waitedMs?: number
    }
  | { readonly kind: 'counted'; readonly windows: WindowCounts }
  | {
      readonly kind: 'refused'
      readonly code: RefusalCode
      /**
       * At the time of the refusal: the balance, the part of it that no lease holds, and what the daily spend
       * cap leaves.
       */
      readonly postedNanos: Nanos
      readonly freeNanos: Nanos
      readonly capLeftNanos: Nanos
      /** Null for keys without a spend limit. */
      readonly key: KeySpend | null
      /** Null for members without a spend limit. */
      readonly member: KeySpend | null
      readonly windows: WindowCounts
      readonly waitedMs?: number
    }

/** The spend limit of a key or of a member in its current window. */
export interface KeySpend {
  /** Charged to requests that were admitted in the window. */
  readonly spentNanos: Nanos
  /** What may still be held: the limit less the spend and the holds of running requests. */
  readonly leftNanos: Nanos
  /** Null for a limit that never resets. */
  readonly endsAtEpochMs: number | null
}
