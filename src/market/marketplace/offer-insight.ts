import { nanosOfPicos, type OfferPrice, usd, usdPerMillion } from '../../base/domain/money.ts'
import { elementAt } from '../../base/runtime/collections.ts'
import type { HosterOffers, OfferCandidate } from '../../wire/api/hoster-console.ts'
import type { HosterPrice } from '../supply/hosters/hosted-model.ts'
import type { PriceRules } from './price-rules.ts'

/** The tokens of the typical request for a model. */
export interface TypicalRequest {
  readonly inputTokens: number
  readonly outputTokens: number
}

/** How routing ranks offers: of src/request/route/route.ts. */
export interface RankingRules {
  /** The expected cost of a request, in picodollars. */
  costPicos(price: OfferPrice, use: TypicalRequest): bigint
  /** The probability of each offer to be tried first with the tier `balanced`. Null: nothing is known of its speed. */
  shares(
    pool: readonly { costPicos: bigint; trust: number; predictedMs: null; inFlight: number; isLast: boolean }[],
  ): number[]
}

/** Another server that competes for the requests of a model. */
export interface Competitor {
  /** Null for servers of the operator: hosters do not see their names. */
  readonly name: string | null
  readonly provider: 'local' | 'hoster' | 'cloud'
  readonly price: OfferPrice
  readonly trust: number
  /** Tried after the others of comparable price: a cloud, unless clouds compete. */
  readonly isLast: boolean
}

export interface OwnOffer {
  readonly price: HosterPrice
  /** The lowest prices during the notice, which a rise is measured against. */
  readonly lowest: HosterPrice
  readonly trust: number
  readonly shareBps: number
}

/** In percent of the current prices. */
const STEPS = [50, 70, 80, 90, 95, 100, 105, 110, 120, 150, 200]

/**
 * Estimates what other prices of an offer would do: each candidate is ranked among the current prices of the others,
 * for the typical request, by the rules of routing. Prices beyond the operator's maximum are left out. Pure.
 *
 * @param marketRequests answered requests for the model in the span that the estimate is for
 */
export function priceCandidates(
  { price, lowest, trust, shareBps }: OwnOffer,
  others: readonly Competitor[],
  market: TypicalRequest & { readonly requests: number },
  { rules, ranking }: { readonly rules: PriceRules; readonly ranking: RankingRules },
): OfferCandidate[] {
  const pool = others.map(other => ({
    costPicos: ranking.costPicos(other.price, market),
    trust: other.trust,
    predictedMs: null,
    inFlight: 0,
    isLast: other.isLast,
  }))
  return STEPS.flatMap((percent): OfferCandidate[] => {
    const input = scaled(price.inputPicoPerToken, percent)
    const output = scaled(price.outputPicoPerToken, percent)
    if (input > rules.max.inputPicoPerToken || output > rules.max.outputPicoPerToken || input === 0n) return []
    const costPicos = ranking.costPicos({ inputPicoPerToken: input, outputPicoPerToken: output }, market)
    const own = { costPicos, trust, predictedMs: null, inFlight: 0, isLast: false }
    const share = elementAt(ranking.shares([own, ...pool]), 0)
    const cheaper = pool.filter(other => other.costPicos < costPicos).length
    const isTied = pool.some(other => other.costPicos === costPicos)
    const requests = Math.round(market.requests * share)
    const risePercent = 100n + BigInt(rules.risePercent)
    return [
      {
        percent,
        input_usd_per_million: usdPerMillion(input),
        output_usd_per_million: usdPerMillion(output),
        request_usd: usd(nanosOfPicos(costPicos)),
        price_rank: cheaper + 1,
        wins_cheapest: cheaper === 0 && !isTied,
        balanced_share: Math.round(share * 10_000) / 10_000,
        requests,
        earned_usd: usd((BigInt(requests) * costPicos * BigInt(shareBps)) / 10_000n / PICOS_PER_NANO),
        needs_notice:
          percent > 100 &&
          (input * 100n > lowest.inputPicoPerToken * risePercent ||
            output * 100n > lowest.outputPicoPerToken * risePercent),
      },
    ]
  })
}

/** Shows the competitors, the cheapest for the typical request first. */
export function shownCompetitors(
  others: readonly Competitor[],
  use: TypicalRequest,
  ranking: RankingRules,
): HosterOffers['data'][number]['market']['others'] {
  return others
    .map(({ name, provider, price, trust }) => ({ name, provider, trust, costPicos: ranking.costPicos(price, use) }))
    .toSorted((a, b) => (a.costPicos < b.costPicos ? -1 : a.costPicos > b.costPicos ? 1 : 0))
    .map(({ costPicos, name, ...other }, index, all) => ({
      ...other,
      name: name ?? platformName(all.slice(0, index).filter(each => each.name === null).length),
      request_usd: usd(nanosOfPicos(costPicos)),
    }))
}

function platformName(before: number): string {
  return before === 0 ? 'platform' : `platform ${before + 1}`
}

const PICOS_PER_NANO = 1_000n

/** Rounds to the nearest picodollar. */
function scaled(picos: bigint, percent: number): bigint {
  return (picos * BigInt(percent) + 50n) / 100n
}
