import type { HealthView } from '../../../base/domain/health.ts'
import type { OfferPrice } from '../../../base/domain/money.ts'
import type { Offer, ProviderKind } from '../../../base/domain/offer.ts'
import type { Catalog } from './catalog.ts'

/** What the servers of one kind that offer a model are like now. */
export interface LiveProvider {
  readonly kind: ProviderKind
  readonly servers: number
  /** Servers that take requests. */
  readonly healthy: number
  readonly inFlight: number
  /** Predicted at the fastest healthy server; null without measurements. */
  readonly firstTokenMs: number | null
  /** The best one, 0 to 1; null unless `kind` is `hoster`. */
  readonly trust: number | null
  readonly lowestPrice: OfferPrice
}

export interface LiveModel {
  readonly modelId: string
  readonly providers: readonly LiveProvider[]
}

/** Describes every model of a catalog, as this node has measured its servers. */
export function describeModels({ offers, models }: Catalog, health: HealthView): LiveModel[] {
  const byModel = Map.groupBy(offers, offer => offer.modelId)
  return [...models.values()].map(({ id, prices }) => ({
    modelId: id,
    providers: [...Map.groupBy(byModel.get(id) ?? [], offer => offer.endpoint.kind)].map(([kind, group]) => ({
      kind,
      ...describe(group, health),
      trust: kind === 'hoster' ? Math.max(...group.map(offer => offer.endpoint.shownTrust ?? 0)) : null,
      lowestPrice: prices[kind]!.lowest,
    })),
  }))
}

function describe(offers: readonly Offer[], health: HealthView) {
  const healthy = offers.filter(({ offerId }) => health.state(offerId) !== 'ejected')
  const measured = healthy
    .map(({ offerId }) => health.predictMs(offerId, { stream: true, outputTokens: null }))
    .filter(ms => ms !== null)
  return {
    servers: offers.length,
    healthy: healthy.length,
    inFlight: offers.reduce((total, { offerId }) => total + health.inFlight(offerId), 0),
    firstTokenMs: measured.length === 0 ? null : Math.round(Math.min(...measured)),
  }
}
