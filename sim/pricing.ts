import { type ChatJob, serviceTiers } from '../src/base/domain/chat-job.ts'
import type { Outcome, Receipt } from '../src/base/domain/handoff.ts'
import { type Nanos, type OfferPrice, splitCost } from '../src/base/domain/money.ts'
import type { Offer } from '../src/base/domain/offer.ts'
import { offerPrice, type PriceList, pricesOf } from '../src/base/domain/price-list.ts'
import { heldNanos } from '../src/base/domain/request-bounds.ts'
import type { Settlement } from '../src/money/ledger/settlement/settlement.ts'
import { type HoldRequest, holdFor, maxTokensFor } from '../src/request/admit/admit.ts'
import { idOf } from './id-of.ts'
import { LONGEST_ANSWER_MS } from './model-database.ts'
import {
  listAt,
  mediaTokens,
  type PartUse,
  type PlannedPrices,
  partsOf,
  planPartUse,
  planPrices,
} from './part-prices.ts'
import { createRandom, type Random } from './random.ts'
import { FIRST_TOKEN_MS } from './upstreams.ts'

/** What a request can cost, and how long its answer turns out to be. */
export interface Pricing {
  readonly offers: readonly Offer[]
  /** The prices of each offer, by its id. */
  readonly planned: ReadonlyMap<string, PlannedPrices>
  /** The price list of each offer, by its id. */
  readonly lists: ReadonlyMap<string, PriceList>
  readonly partUse: PartUse | null
  readonly job: ChatJob
  /** Output tokens of a job without a limit. */
  readonly defaultMaxTokens: number
  readonly hold: HoldRequest
  /**
   * Tokens used, in thousandths of what the hold pays for. 0 means that every server rejects the request, above 1000 that a server exceeds the
   * token limit.
   */
  readonly share: number
  /** The settlement reaches the ledger without clamping, so that the ledger must clamp it. */
  readonly isRaw: boolean
}

/** Plans a request that holds about `aboutNanos`. The prices have remainders, so that rounding matters. `endpoints`: the servers that offer it. */
export function planPricing(
  random: Random,
  modelId: string,
  aboutNanos: number,
  endpoints: readonly number[],
): Pricing {
  const picos = aboutNanos * 1_000
  const unpriced = endpoints.map(index => {
    const inputPico = Math.round(random.skewed(10_000, 3_000_000))
    const outputPico = inputPico * random.between(1, 5) + random.between(0, 999)
    const hosterShareBps = random.pick([0, 7_777, 8_000, 10_000])
    const endpoint = {
      endpointId: endpointIdOf(index),
      kind: 'hoster',
      hosterId: idOf('hoster', index),
      hosterShareBps,
      trustScore: 0.5,
      dialect: {
        maxTokensField: 'max_tokens',
        developerToSystem: false,
        streamOptions: false,
        forwardFields: [],
        dropFields: [],
      },
      timeouts: { connectMs: 3_000, firstTokenMs: FIRST_TOKEN_MS, idleMs: 30_000, totalMs: LONGEST_ANSWER_MS },
    }
    // Only the fields of an offer and a job that the simulated parts read.
    const offer = {
      offerId: offerIdOf(index, modelId),
      endpoint,
      modelId,
      upstreamModel: modelId,
      features: NO_FEATURES,
      contextTokens: 1e15,
      maxOutputTokens: 1e15,
    } as unknown as Offer
    return { offer, inputPico, outputPico }
  })
  const highestPrice = Math.max(...unpriced.map(({ outputPico }) => outputPico))
  const inputTokensBound = Math.max(1, Math.round((picos * random.next() * 0.5) / highestPrice))
  // Not a fork: its draws would change every history of a seed.
  const partRandom = createRandom(Math.round(aboutNanos))
  const planned = new Map(
    unpriced.map(({ offer, inputPico, outputPico }) => [
      offer.offerId,
      planPrices(partRandom, BigInt(inputPico), BigInt(outputPico), inputTokensBound),
    ]),
  )
  const partUse = planPartUse(partRandom)
  const lists = new Map([...planned].map(([offerId, { list }]) => [offerId, list]))
  const offers = unpriced.map(({ offer }) => ({ ...offer, ...soldAt(lists.get(offer.offerId)!) }))
  const choices = random.pick([1, 1, 1, 2])
  const maxTokens = Math.max(1, Math.round((picos * random.between(500, 1_000)) / 1_000 / highestPrice / choices))
  // A cap pays for at least the prompt and one token; the product refuses smaller caps before admission.
  const pricesEver = [...planned.values()].flatMap(pricesAtAnyTime)
  const leastOf = (job: ChatJob) =>
    Math.max(...pricesEver.map(price => Number(heldNanos({ price, upstreamModel: modelId }, job, choices))))
  const uncapped = {
    task: 'chat',
    model: modelId,
    constraints: {
      serviceTier: random.pick(serviceTiers),
      privacyMode: random.chance(0.1),
      trustedOnly: false,
      maxLatencyMs: null,
      fallbackModels: [],
      allowHosters: null,
      denyHosters: NO_HOSTERS,
    },
    stream: random.chance(0.5),
    features: NO_FEATURES,
    forward: NO_FIELDS,
    extraFields: [],
    droppedFields: [],
    maxTokens: random.chance(0.7) ? maxTokens : null,
    choices,
    inputTokensBound,
    mediaTokensBound: mediaTokens(partUse, inputTokensBound),
    maxCostNanos: null,
  } as unknown as ChatJob
  const job: ChatJob = {
    ...uncapped,
    maxCostNanos: random.chance(0.1) ? BigInt(leastOf(uncapped) + random.between(0, Math.ceil(aboutNanos))) : null,
    onInsufficient: random.chance(0.1) ? 'clamp' : 'refuse',
  }
  return {
    offers,
    planned,
    lists,
    partUse,
    job,
    defaultMaxTokens: maxTokens,
    hold: holdFor(offers, job, maxTokens),
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

// A hoster may not charge for writes, so these hosters sell like clouds.
const SELLER = 'cloud'
const soldAt = (list: PriceList) => pricesOf(list, SELLER)

/** The highest prices within and outside of the windows. */
function pricesAtAnyTime({ list, windows }: PlannedPrices): OfferPrice[] {
  const always = { days: [new Date(0).getUTCDay()], fromMinute: 0, untilMinute: 1 }
  const inForce = windows.map(({ price }) => ({ ...price, ...always }))
  return [offerPrice(list, SELLER, 0), offerPrice({ ...list, windows: inForce }, SELLER, 0)]
}

/** Adds the windows, for a run that starts at `epochMs`. */
export function withWindows(pricing: Pricing, epochMs: number): Pricing {
  const lists = new Map([...pricing.planned].map(([offerId, planned]) => [offerId, listAt(planned, epochMs)]))
  const offers = pricing.offers.map(offer => ({ ...offer, ...soldAt(lists.get(offer.offerId)!) }))
  return { ...pricing, lists, offers }
}

/** The prices of a request that begins now, and its hold. */
export function pricedAt(pricing: Pricing, epochMs: number): Pricing {
  if (!pricing.offers.some(({ timedPrices }) => timedPrices)) return pricing
  const offers = pricing.offers.map(offer => offerAt(offer, epochMs))
  return { ...pricing, offers, hold: holdFor(offers, pricing.job, pricing.defaultMaxTokens) }
}

/** The offer at its price of this time, as src/market/supply/catalog/catalog.ts has it. */
export function offerAt(offer: Offer, epochMs: number): Offer {
  const { timedPrices } = offer
  return timedPrices === undefined ? offer : { ...offer, price: offerPrice(timedPrices, SELLER, epochMs) }
}

/** The billed tokens for a given hold. */
export function tokensOf({ offers, job, hold, share }: Pricing, heldNanos: Nanos): { input: number; output: number } {
  const maxTokens = heldNanos < hold.wantNanos ? maxTokensFor(offers, job, heldNanos) : hold.maxTokens
  return {
    input: Math.ceil((job.inputTokensBound * Math.min(share, 1_000)) / 1_000),
    output: Math.floor((maxTokens * job.choices * share) / 1_000),
  }
}

/** The receipt of a request; `offer` is null when no server served it. */
export function receiptOf(pricing: Pricing, offer: Offer | null, outcome: Outcome, heldNanos: Nanos): Receipt {
  const { input, output } = offer === null ? { input: 0, output: 0 } : tokensOf(pricing, heldNanos)
  return {
    outcome,
    offer,
    attempts: [],
    billedInputTokens: input,
    billedOutputTokens: output,
    billedParts: offer === null ? null : partsOf(pricing.partUse, pricing.lists.get(offer.offerId)!, input, output),
    reportedInputTokens: null,
    reportedOutputTokens: null,
    countedInputTokens: null,
    countedOutputTokens: null,
    usageSource: offer === null ? 'none' : 'gateway',
    finishReason: null,
    firstTokenMs: null,
  }
}

/** Replaces the clamped cost of a settlement by the measured one when `isRaw`: the ledger must clamp it. */
export function rawOf(settlement: Settlement, pricing: Pricing, offer: Offer | null): Settlement {
  if (!pricing.isRaw || offer === null) return settlement
  const measuredNanos = settlement.costNanos + settlement.writeoffNanos
  return {
    ...settlement,
    costNanos: measuredNanos,
    ...splitCost(measuredNanos, offer.endpoint.hosterShareBps),
    writeoffNanos: 0n,
  }
}

export function endpointIdOf(index: number): string {
  return `endpoint ${index}`
}

export function offerIdOf(index: number, modelId: string): string {
  return `${endpointIdOf(index)}/${modelId}`
}

const NO_FEATURES: ReadonlySet<never> = new Set()
const NO_HOSTERS: ReadonlySet<never> = new Set()
const NO_FIELDS = {}
