import type { Attempt, Hold, Outcome } from '../../../base/domain/handoff.ts'
import type { PricedPart, TokenPrice } from '../../../base/domain/money.ts'
import type { ProviderKind } from '../../../base/domain/offer.ts'
import type { RoutingNote } from '../../../base/domain/routing-note.ts'

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
  /** What the request is for, by its header or its key; null for none. */
  readonly label: string | null
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
  /** The price of the tokens that `parts` does not name. */
  readonly price: TokenPrice
  /** The billed tokens that have a price of their own, and the request itself where it has one. Null: none. */
  readonly parts: readonly PricedPart[] | null
  /** Billed inside `outputTokens`, as the upstream reported. Null: none, or not reported. */
  readonly reasoningTokens: number | null
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
    parts: null,
    reasoningTokens: null,
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
