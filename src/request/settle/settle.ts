import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { Receipt, Ticket } from '../../base/domain/handoff.ts'
import {
  billedCost,
  chargeWithinHold,
  type Nanos,
  type OfferPrice,
  splitCost,
  type TokenPrice,
} from '../../base/domain/money.ts'
import type { RoutingNote } from '../../base/domain/routing-note.ts'
import { failpoint } from '../../base/runtime/failpoint.ts'
import type { Clock } from '../../base/runtime/scheduler.ts'
import type { Ledger } from '../../money/ledger/ledger.ts'
import type { Settlement } from '../../money/ledger/settlement/settlement.ts'

export interface SettleDeps {
  readonly ledger: Pick<Ledger, 'settle'>
  readonly clock: Clock
  readonly onSettled?: (settlement: Settlement, receipt: Receipt, job: ChatJob) => void
}

/** The request that a ticket was made for. */
export interface SettledRequest {
  readonly job: ChatJob
  readonly watch?: SettlementWatch | undefined
}

/** Observes how the settlement of one request ends. */
export interface SettlementWatch {
  onSettled(settlement: Pick<Settlement, 'success' | 'outcome' | 'costNanos'>): void
  /** The client was answered as if the request were free, but its charge may have been committed. */
  onOutcomeUnknown(): void
}

/**
 * Settles a ticket: charges what the receipt bills, releases the rest of the hold and writes the usage row,
 * all in one transaction. Returns the charge once it is in the journal, or committed. Throws
 * `settlement_unavailable` when that takes too long.
 */
export async function settle(
  deps: SettleDeps,
  ticket: Ticket,
  receipt: Receipt,
  routing: RoutingNote | null,
  { job, watch }: SettledRequest,
): Promise<Nanos> {
  failpoint('settlement-before-build')
  const settlement = settlementOf(ticket, receipt, routing, deps.clock.monotonicMs() - ticket.startedMonotonicMs)
  failpoint('settlement-built')
  try {
    await deps.ledger.settle(settlement, ticket.hold)
  } catch (error) {
    watch?.onOutcomeUnknown()
    throw error
  }
  failpoint('settlement-acknowledged')
  deps.onSettled?.(settlement, receipt, job)
  watch?.onSettled(settlement)
  return settlement.costNanos
}

/** Builds the settlement of a ticket. The charge never exceeds the hold; any cost beyond it is written off. */
export function settlementOf(
  ticket: Ticket,
  receipt: Receipt,
  routing: RoutingNote | null,
  latencyMs: number,
): Settlement {
  const offer = receipt.offer
  const { billedInputTokens, billedOutputTokens, billedParts } = receipt
  const cost = billedCost(offer?.price ?? noPrice, billedInputTokens, billedOutputTokens, billedParts)
  const measuredNanos = cost.nanos
  const chargedNanos = chargeWithinHold(measuredNanos, ticket.hold.nanos)
  return {
    requestId: ticket.requestId,
    leaseId: ticket.hold.leaseId,
    customerId: ticket.caller.customerId,
    keyId: ticket.caller.keyId,
    label: ticket.label,
    startedAtEpochMs: ticket.startedAtEpochMs,
    modelId: offer?.modelId ?? ticket.models[0]!,
    provider: offer?.endpoint.kind ?? 'none',
    endpointId: offer?.endpoint.endpointId ?? null,
    hosterId: offer?.endpoint.hosterId ?? null,
    inputTokens: billedInputTokens,
    outputTokens: billedOutputTokens,
    reportedInputTokens: receipt.reportedInputTokens,
    reportedOutputTokens: receipt.reportedOutputTokens,
    countedInputTokens: receipt.countedInputTokens,
    countedOutputTokens: receipt.countedOutputTokens,
    usageSource: receipt.usageSource,
    price: cost.price,
    parts: cost.parts,
    reasoningTokens: billedParts?.reasoningTokens || null,
    priceVersion: offer?.priceVersion ?? null,
    priceGroup: offer?.priceGroup ?? null,
    upstreamCostNanos: upstreamCost(offer?.cost, receipt),
    holdNanos: ticket.hold.nanos,
    costNanos: chargedNanos,
    ...splitCost(chargedNanos, offer?.endpoint.hosterShareBps ?? 0),
    writeoffNanos: measuredNanos - chargedNanos,
    latencyMs: Math.max(0, Math.round(latencyMs)),
    firstTokenMs: receipt.firstTokenMs === null ? null : Math.round(receipt.firstTokenMs),
    // A client that left a stream and pays got what it pays for. A failure costs nothing.
    success: receipt.outcome === 'served' || chargedNanos > 0n,
    outcome: receipt.outcome,
    finishReason: receipt.finishReason,
    attempts: receipt.attempts,
    routing,
  }
}

const noPrice: TokenPrice = { inputPicoPerToken: 0n, outputPicoPerToken: 0n }

/**
 * Returns what the operator is charged for an answer, as far as that is known: by the declared cost of the offer. At a server with a
 * budget, an offer without a declared cost counts at its price.
 */
export function ownCost(receipt: BilledReceipt): Nanos {
  const { offer } = receipt
  if (offer === null) return 0n
  const price = offer.endpoint.monthlyBudgetNanos === undefined ? undefined : (offer.listPrice ?? offer.price)
  return upstreamCost(offer.cost ?? price, receipt) ?? 0n
}

type BilledReceipt = Pick<
  Receipt,
  'offer' | 'billedInputTokens' | 'billedOutputTokens' | 'billedParts' | 'reportedInputTokens' | 'reportedOutputTokens'
>

/** Returns what a server charges for all that it did, also for an answer that the customer does not pay for. Null: not known. */
function upstreamCost(cost: OfferPrice | undefined, receipt: BilledReceipt): Nanos | null {
  if (cost === undefined) return null
  const { billedInputTokens, billedOutputTokens, reportedInputTokens, reportedOutputTokens } = receipt
  // A report that came before the end, or has zeros, says less than what was billed by our own count.
  const inputTokens = Math.max(reportedInputTokens ?? 0, billedInputTokens)
  const outputTokens = Math.max(reportedOutputTokens ?? 0, billedOutputTokens)
  if (inputTokens === 0 && outputTokens === 0 && reportedInputTokens === null && reportedOutputTokens === null)
    return null
  return billedCost(cost, inputTokens, outputTokens, receipt.billedParts).nanos
}
