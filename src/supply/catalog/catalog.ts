import type { Feature } from '../../domain/chat-job.ts'
import type { TokenPrice } from '../../domain/money.ts'
import type { Offer, ProviderKind } from '../../domain/offer.ts'

/** Every live offer at one moment. Immutable: a change makes another catalog, so a request sees one from start to end. */
export interface Catalog {
  readonly offers: readonly Offer[]
  /** Empty for an unknown model. */
  offersOf(modelId: string): readonly Offer[]
  offer(offerId: string): Offer | undefined
  /** By id, in the order the models first appear among the offers. */
  readonly models: ReadonlyMap<string, ModelSummary>
}

/** A model as customers see it: what its offers have in common, and between which prices they lie. */
export interface ModelSummary {
  readonly id: string
  /** The most any offer takes. */
  readonly contextTokens: number
  readonly maxOutputTokens: number
  /** What at least one offer can do. */
  readonly features: ReadonlySet<Feature>
  readonly providerKinds: readonly ProviderKind[]
  /** For the kinds that offer it. */
  readonly prices: Partial<Record<ProviderKind, PriceRange>>
  /** Unix time in seconds since when it is offered. */
  readonly created: number
  /** The name of the endpoint when there is only one, otherwise `switchyard`. */
  readonly ownedBy: string
  readonly demo: boolean
}

/** Real prices of real offers, by the sum of input and output price. */
export interface PriceRange {
  readonly cheapest: TokenPrice
  readonly dearest: TokenPrice
}

/**
 * @param offers with unique ids
 * @param createdOf Unix seconds since when a model is offered
 */
export function buildCatalog(offers: readonly Offer[], createdOf: (modelId: string) => number): Catalog {
  const byId = new Map(offers.map(offer => [offer.offerId, offer]))
  if (byId.size !== offers.length) throw new Error(`Two offers have the same id: ${firstRepeated(offers)}`)
  const byModel = Map.groupBy(offers, offer => offer.modelId)
  const models = new Map([...byModel].map(([id, group]) => [id, summarise(id, group, createdOf(id))]))
  return {
    offers,
    offersOf: modelId => byModel.get(modelId) ?? [],
    offer: offerId => byId.get(offerId),
    models,
  }
}

function summarise(id: string, offers: readonly Offer[], created: number): ModelSummary {
  const byKind = Map.groupBy(offers, offer => offer.endpoint.kind)
  const names = new Set(offers.map(offer => offer.endpoint.name))
  return {
    id,
    contextTokens: Math.max(...offers.map(offer => offer.contextTokens)),
    maxOutputTokens: Math.max(...offers.map(offer => offer.maxOutputTokens)),
    features: new Set(offers.flatMap(offer => [...offer.features])),
    providerKinds: [...byKind.keys()],
    prices: Object.fromEntries([...byKind].map(([kind, group]) => [kind, priceRange(group)])),
    created,
    ownedBy: names.size === 1 ? offers[0]!.endpoint.name : 'switchyard',
    demo: offers.every(offer => offer.endpoint.demo),
  }
}

function priceRange(offers: readonly Offer[]): PriceRange {
  const ascending = offers
    .map(offer => offer.price)
    .toSorted((a, b) => (sum(a) < sum(b) ? -1 : sum(a) > sum(b) ? 1 : 0))
  return { cheapest: ascending[0]!, dearest: ascending.at(-1)! }
}

const sum = (price: TokenPrice) => price.inputPicoPerToken + price.outputPicoPerToken

function firstRepeated(offers: readonly Offer[]): string | undefined {
  const seen = new Set<string>()
  return offers.find(({ offerId }) => seen.size === seen.add(offerId).size)?.offerId
}
