import type { AccountLimits, KeyLimit } from '../../domain/caller.ts'
import type { Hold } from '../../domain/handoff.ts'
import type { WindowCounts } from '../../domain/windows.ts'

/** A request that asks to run. */
export interface Admission {
  /** UUIDv7; also the id of the strict lease. */
  readonly requestId: string
  readonly customerId: string
  readonly keyId: string
  /** The model asked for; kept on the lease for the usage row the reaper writes. */
  readonly modelId: string
  readonly limits: AccountLimits
  /** Null for keys without a spend limit. */
  readonly keyLimit: KeyLimit | null
  /**
   * Null only counts the request against the windows (unknown model, nothing eligible). `wantNanos` is the worst case and
   * `floorNanos` the least that still makes sense (the same when max_tokens is explicit): granted is
   * min(want, what is free, what the day cap and the key's limit leave) if that is at least the floor.
   */
  readonly ask: { readonly wantNanos: bigint; readonly floorNanos: bigint } | null
  /** It was refused for want of money in the minute that ends then, and tries again: in that minute, and in its day, it is not counted twice. */
  readonly countedUntilEpochMs?: number
}

export type RefusalCode =
  | 'rate_limit_exceeded'
  | 'daily_limit_exceeded'
  | 'insufficient_credits'
  | 'in_flight_budget'
  | 'daily_spend_cap_reached'
  | 'key_spend_limit_reached'

/** Refused for want of a place in the minute or the day, whatever money there is; such a request is not counted in them. */
export function isRefusedByWindow(code: RefusalCode): boolean {
  return code === 'rate_limit_exceeded' || code === 'daily_limit_exceeded'
}

export type AdmissionResult =
  | {
      readonly kind: 'granted'
      /** Of the strict lease of its own id, or of a bulk lease. Goes back with the settlement. */
      readonly hold: Hold
      readonly windows: WindowCounts
    }
  | { readonly kind: 'counted'; readonly windows: WindowCounts }
  | {
      readonly kind: 'refused'
      readonly code: RefusalCode
      /** The balance, what of it no lease holds, and what the daily spend cap leaves; all at the time of the refusal. */
      readonly postedNanos: bigint
      readonly freeNanos: bigint
      readonly capLeftNanos: bigint
      /** Null for keys without a spend limit. */
      readonly key: KeySpend | null
      readonly windows: WindowCounts
    }

/** A key's spend limit in its running window. */
export interface KeySpend {
  /** Charged to requests that were admitted in the window. */
  readonly spentNanos: bigint
  /** What may still be held: the limit less what is spent and what running requests hold. */
  readonly leftNanos: bigint
  /** Null for a limit that never starts again. */
  readonly endsAtEpochMs: number | null
}
