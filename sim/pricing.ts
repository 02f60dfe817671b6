import { type HoldRequest, holdFor, maxTokensFor } from '../src/admit/hold.ts'
import type { ChatJob } from '../src/domain/chat-job.ts'
import type { Receipt, Ticket } from '../src/domain/handoff.ts'
import { costNanos, type Nanos, splitCost } from '../src/domain/money.ts'
import type { Offer } from '../src/domain/offer.ts'
import type { Admission } from '../src/ledger/admission.ts'
import type { Settlement } from '../src/ledger/settlement.ts'
import { settlementOf } from '../src/settle/settle.ts'
import { idOf } from './id-of.ts'
import type { Random } from './random.ts'

/** What a request may cost, and how long its answer turns out to be. */
export interface Pricing {
  readonly offers: readonly Offer[]
  readonly job: ChatJob
  readonly hold: HoldRequest
  /** Which of the offers serves it. */
  readonly served: number
  /** What is used of prompt and answer, in thousandths of what the hold pays for; 0 when nobody serves, above 1000 when a hoster overruns. */
  readonly share: number
  /** An overrun reaches the ledger as it is, which has to cut it by itself. */
  readonly isRaw: boolean
}

/** A request that holds about so much. The prices have remainders, so that roundings show. */
export function planPricing(random: Random, modelId: string, aboutNanos: number): Pricing {
  const picos = aboutNanos * 1_000
  const offers = Array.from({ length: random.pick([1, 1, 2, 3]) }, (_, index) => {
    const inputPico = Math.round(random.skewed(10_000, 3_000_000))
    const price = {
      inputPicoPerToken: BigInt(inputPico),
      outputPicoPerToken: BigInt(inputPico * random.between(1, 5) + random.between(0, 999)),
    }
    const hosterShareBps = random.pick([0, 7_777, 8_000, 10_000])
    const endpoint = {
      endpointId: `endpoint ${index}`,
      kind: 'hoster',
      hosterId: idOf('hoster', index),
      hosterShareBps,
    }
    // What pricing reads of an offer, a job and a ticket; the rest is for other parts of the product.
    return {
      offerId: `${index}/${modelId}`,
      endpoint,
      modelId,
      price,
      contextTokens: 1e9,
      maxOutputTokens: 1e9,
    } as unknown as Offer
  })
  const dearest = Math.max(...offers.map(({ price }) => Number(price.outputPicoPerToken)))
  const inputTokensBound = Math.max(1, Math.round((picos * random.next() * 0.5) / dearest))
  const choices = random.pick([1, 1, 1, 2])
  const maxTokens = Math.max(1, Math.round((picos * random.between(500, 1_000)) / 1_000 / dearest / choices))
  // A cap pays for the prompt and a token at least; others are refused before.
  const leastNanos = Math.max(...offers.map(({ price }) => Number(costNanos(price, inputTokensBound, choices))))
  const job = {
    model: modelId,
    maxTokens: random.chance(0.7) ? maxTokens : null,
    choices,
    inputTokensBound,
    mediaTokensBound: 0,
    maxCostNanos: random.chance(0.1) ? BigInt(leastNanos + random.between(0, Math.ceil(aboutNanos))) : null,
    onInsufficient: random.chance(0.1) ? 'clamp' : 'reject',
  } as unknown as ChatJob
  return {
    offers,
    job,
    hold: holdFor(offers, job, { maxTokens }),
    served: random.between(0, offers.length - 1),
    share: random.pick([
      0,
      1000,
      random.between(1, 999),
      random.between(1, 999),
      random.between(1, 200),
      random.chance(0.05) ? 1_500 : 700,
    ]),
    isRaw: random.chance(0.5),
  }
}

/** The tokens that are billed when so much is held. */
export function tokensOf({ offers, job, hold, share }: Pricing, heldNanos: Nanos): { input: number; output: number } {
  const maxTokens = heldNanos < hold.wantNanos ? maxTokensFor(offers, job, heldNanos) : hold.maxTokens
  return {
    input: Math.ceil((job.inputTokensBound * Math.min(share, 1_000)) / 1_000),
    output: Math.floor((maxTokens * job.choices * share) / 1_000),
  }
}

/** How the request ended, as the product puts it. */
export function settle(
  { admission, pricing }: { readonly admission: Admission; readonly pricing: Pricing },
  granted: { readonly leaseId: string; readonly heldNanos: Nanos },
  clock: { readonly startedAtEpochMs: number; readonly latencyMs: number },
): Settlement {
  const { requestId, customerId, keyId, modelId, limits } = admission
  const ticket = {
    requestId,
    leaseId: granted.leaseId,
    caller: { customerId, keyId, limits },
    startedAtEpochMs: clock.startedAtEpochMs,
    startedMonotonicMs: 0,
    models: [modelId],
    holdNanos: granted.heldNanos,
  } as unknown as Ticket
  const isServed = pricing.share > 0
  const { input, output } = isServed ? tokensOf(pricing, granted.heldNanos) : { input: 0, output: 0 }
  const offer = isServed ? pricing.offers[pricing.served]! : null
  const receipt: Receipt = {
    outcome: isServed ? 'served' : 'unserved',
    offer,
    attempts: [],
    billedInputTokens: input,
    billedOutputTokens: output,
    reportedInputTokens: null,
    reportedOutputTokens: null,
    countedInputTokens: null,
    countedOutputTokens: null,
    usageSource: isServed ? 'gateway' : 'none',
    finishReason: null,
    firstTokenMs: null,
  }
  const settlement = settlementOf(ticket, receipt, null, clock.latencyMs)
  if (!pricing.isRaw || offer === null) return settlement
  const measuredNanos = costNanos(offer.price, input, output)
  return {
    ...settlement,
    costNanos: measuredNanos,
    ...splitCost(measuredNanos, offer.endpoint.hosterShareBps),
    writeoffNanos: 0n,
  }
}
