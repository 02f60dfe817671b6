import type { Attempt, Hold, Outcome } from '../../domain/handoff.ts'
import type { TokenPrice } from '../../domain/money.ts'
import type { ProviderKind } from '../../domain/offer.ts'
import type { RoutingNote } from '../../domain/routing-note.ts'

/**
 * How an admitted request ended. Costs are final, except that the ledger lowers a cost that the lease does
 * not cover.
 */
export interface Settlement {
  readonly requestId: string
  /** The lease of the hold, which is charged. */
  readonly leaseId: string
  readonly customerId: string
  readonly keyId: string
  readonly startedAtEpochMs: number
  readonly modelId: string
  readonly provider: ProviderKind | 'none'
  readonly endpointId: string | null
  readonly hosterId: string | null
  /** As billed. */
  readonly inputTokens: number
  readonly outputTokens: number
  readonly reportedInputTokens: number | null
  readonly reportedOutputTokens: number | null
  /** Counted by the gateway. Null when no count was needed. */
  readonly countedInputTokens: number | null
  readonly countedOutputTokens: number | null
  readonly usageSource: 'upstream' | 'gateway' | 'none'
  readonly price: TokenPrice
  /** Null when the operator's configuration sets the price. */
  readonly priceVersion: number | null
  readonly holdNanos: bigint
  readonly costNanos: bigint
  readonly hosterShareNanos: bigint
  readonly feeNanos: bigint
  readonly writeoffNanos: bigint
  /** Whole milliseconds. */
  readonly latencyMs: number
  readonly firstTokenMs: number | null
  readonly success: boolean
  readonly outcome: Outcome
  readonly finishReason: string | null
  readonly attempts: readonly Attempt[]
  /** Null when there was nothing to choose. */
  readonly routing: RoutingNote | null
}

/** Returns the same settlement with nothing charged. Its cost is written off. */
export function voided(settlement: Settlement): Settlement {
  return {
    ...settlement,
    inputTokens: 0,
    outputTokens: 0,
    costNanos: 0n,
    hosterShareNanos: 0n,
    feeNanos: 0n,
    writeoffNanos: settlement.writeoffNanos + settlement.costNanos,
    success: false,
    outcome: 'internal_error',
  }
}

/** Closes the hold of a settled request. This is the only field of a ticket that changes. */
export function closeHold(hold: Hold): void {
  ;(hold as { isOpen: boolean }).isOpen = false
}
