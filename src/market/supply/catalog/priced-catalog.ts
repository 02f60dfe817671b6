import type { Offer } from '../../../base/domain/offer.ts'
import { adjustedPrice, type PriceGroup } from '../../../base/domain/price-group.ts'
import { offerPrice } from '../../../base/domain/price-list.ts'
import type { NonEmpty } from '../../../base/runtime/collections.ts'
import { type Catalog, type ModelSummary, summarise } from './catalog.ts'

/** The catalogs of groups, by `name@version`. Each lives as long as the catalog that it was made of. */
const priced = new WeakMap<Catalog, Map<string, Catalog>>()
/** An installation has a few groups. With very many, the least a group costs is its offers once more. */
const GROUPS_MAX = 1_000

/** Returns the catalog at the prices of a group. Offers are priced model by model, when they are asked for. */
export function pricedCatalog(catalog: Catalog, group: PriceGroup): Catalog {
  let ofGroups = priced.get(catalog)
  if (ofGroups === undefined) {
    ofGroups = new Map()
    priced.set(catalog, ofGroups)
  }
  const key = `${group.name}@${group.version}`
  let found = ofGroups.get(key)
  if (found === undefined) {
    if (ofGroups.size >= GROUPS_MAX) ofGroups.clear()
    found = createPriced(catalog, group)
    ofGroups.set(key, found)
  }
  return found
}

function createPriced(catalog: Catalog, group: PriceGroup): Catalog {
  const byModel = new Map<string, readonly Offer[]>()
  let all: readonly Offer[] | undefined
  let models: ReadonlyMap<string, ModelSummary> | undefined
  const offersOf = (modelId: string) => {
    const known = byModel.get(modelId)
    if (known !== undefined) return known
    const offers = catalog.offersOf(modelId)
    // Clients may send any number of other ids.
    if (offers.length === 0) return offers
    const own = offers.map(offer => pricedOffer(offer, group))
    byModel.set(modelId, own)
    return own
  }
  return {
    get offers() {
      all ??= catalog.offers.map(({ offerId, modelId }) => offersOf(modelId).find(offer => offer.offerId === offerId)!)
      return all
    },
    offersOf,
    offer(offerId) {
      const offer = catalog.offer(offerId)
      return offer && offersOf(offer.modelId).find(each => each.offerId === offerId)
    },
    get models() {
      models ??= new Map(
        catalog.models
          .values()
          .map(({ id, created }) => [id, summarise(id, offersOf(id) as NonEmpty<Offer>, created)] as const),
      )
      return models
    },
    absent: catalog.absent,
  }
}

/**
 * Returns the offer at the price of a group. Only servers of the operator and clouds: a hoster sells at its own price to all
 * customers, so that its share is a part of it.
 */
function pricedOffer(offer: Offer, group: PriceGroup): Offer {
  const { endpoint, modelId } = offer
  if (endpoint.kind === 'hoster') return offer
  const rule = group.models.get(modelId) ?? group
  const price =
    'list' in rule
      ? offerPrice({ ...rule.list, steps: [], windows: [] }, endpoint.kind, 0)
      : adjustedPrice(offer.price, rule.adjustBps)
  return { ...offer, price, listPrice: offer.price, priceGroup: { name: group.name, version: group.version } }
}
