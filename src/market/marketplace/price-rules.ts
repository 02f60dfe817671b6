import type { TokenPrice } from '../../base/domain/money.ts'
import type { HostedModel, HosterPrice } from '../supply/hosters/hosted-model.ts'

/** The rules of the operator for prices that hosters set themselves. */
export interface PriceRules {
  /** The highest prices. */
  readonly max: TokenPrice
  /** The least time between two changes. */
  readonly changeIntervalMs: number
  /** A price that rises by more than this waits for the notice. */
  readonly risePercent: number
  readonly riseNoticeMs: number
}

/** A model as it is offered now. */
export interface OfferedModel {
  readonly model: Required<HostedModel>
  /** The lowest of each price during the notice until now: many small rises count as one. */
  readonly lowest: HosterPrice
}

/** A model that a hoster has sold, whether it is still offered or not. */
export interface PastModel {
  readonly modelId: string
  readonly upstreamModel: string
  /** The last price that it had. */
  readonly last: HosterPrice
  /** The lowest of each price during the notice until now, or the last one if it was not offered since. */
  readonly lowest: HosterPrice
}

/** What a manifest changes. */
export interface PricePlan {
  /** Models that are new or different, to offer at once. */
  readonly now: readonly HostedModel[]
  /** Models with a price that rises too much: they stay as they are until the notice has passed. */
  readonly later: readonly HostedModel[]
  /** The ids of models that the manifest leaves out. */
  readonly withdrawn: readonly string[]
}

/**
 * Compares the models of a manifest with what is offered, and their prices with those that they had before. A model
 * that was left out for a while, or has another id now, rises against its earlier prices. Pure.
 *
 * @param past empty for a hoster that has never sold anything
 */
export function planPrices(
  offered: readonly OfferedModel[],
  wanted: readonly HostedModel[],
  past: readonly PastModel[],
  { risePercent }: Pick<PriceRules, 'risePercent'>,
): PricePlan {
  const before = new Map(offered.map(each => [each.model.modelId, each]))
  const changed = wanted.filter(model => {
    const found = before.get(model.modelId)
    return found === undefined || !isSameModel(found.model, model)
  })
  const kept = new Set(wanted.map(({ modelId }) => modelId))
  const needsNotice = ({ modelId, upstreamModel, price }: HostedModel) => {
    const same = past.find(each => each.modelId === modelId)
    if (same !== undefined && isSamePrice(same.last, price)) return false
    const renamed = past.filter(each => each.upstreamModel === (upstreamModel ?? modelId) && !kept.has(each.modelId))
    return (same === undefined ? renamed : [same, ...renamed]).some(each =>
      risesBeyond(each.lowest, price, risePercent),
    )
  }
  return {
    now: changed.filter(model => !needsNotice(model)),
    later: changed.filter(needsNotice),
    withdrawn: [...before.keys()].filter(modelId => !kept.has(modelId)),
  }
}

/** Returns what is wrong with prices, or null when they are within the operator's bounds. */
export function beyondBounds({ price }: HostedModel, { max }: Pick<PriceRules, 'max'>): 'input' | 'output' | null {
  if (price.inputPicoPerToken > max.inputPicoPerToken) return 'input'
  return price.outputPicoPerToken > max.outputPicoPerToken ? 'output' : null
}

const kinds = ['inputPicoPerToken', 'outputPicoPerToken', 'cacheReadPicoPerToken', 'cacheWritePicoPerToken'] as const

/** Without a cache price, cached tokens cost the input price. */
function priceOf(price: HosterPrice, kind: (typeof kinds)[number]): bigint {
  return price[kind] ?? price.inputPicoPerToken
}

function risesBeyond(lowest: HosterPrice, price: HosterPrice, risePercent: number): boolean {
  return kinds.some(kind => priceOf(price, kind) * 100n > priceOf(lowest, kind) * BigInt(100 + risePercent))
}

function isSamePrice(a: HosterPrice, b: HosterPrice): boolean {
  return kinds.every(kind => a[kind] === b[kind])
}

/** Whether probes must show that a model works: it is new, another model of the server, or does something else. */
export function needsProbes(offered: Required<HostedModel> | undefined, model: HostedModel): boolean {
  return (
    offered === undefined ||
    offered.upstreamModel !== (model.upstreamModel ?? model.modelId) ||
    !isSameSet(offered.features, model.features)
  )
}

/** Whether two models have the same prices and terms. */
export function isSameModel(a: Required<HostedModel>, b: HostedModel): boolean {
  return (
    a.modelId === b.modelId &&
    isSamePrice(a.price, b.price) &&
    a.upstreamModel === (b.upstreamModel ?? b.modelId) &&
    a.contextTokens === b.contextTokens &&
    a.maxOutputTokens === b.maxOutputTokens &&
    isSameSet(a.features, b.features)
  )
}

function isSameSet(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every(each => b.includes(each))
}
