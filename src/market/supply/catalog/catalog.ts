import type { Sql } from '../../../base/db/pool.ts'
import type { Feature } from '../../../base/domain/chat-job.ts'
import type { OfferPrice, TokenPrice } from '../../../base/domain/money.ts'
import type { Endpoint, Offer, ProviderKind } from '../../../base/domain/offer.ts'
import { nextChangeMs, offerPrice } from '../../../base/domain/price-list.ts'
import type { SealingKeys } from '../../../base/domain/sealing-keys.ts'
import { groupBy, type NonEmpty, valueAt } from '../../../base/runtime/collections.ts'
import type { Clock } from '../../../base/runtime/scheduler.ts'
import { type HosterOffers, readHosterOffers } from '../hosters/hoster-offers.ts'
import { type ReadEndpoint, readProviderOffers } from '../providers/providers.ts'

/**
 * Every live offer at one moment. Immutable: a change creates a new catalog, so a request uses the same one
 * from start to end.
 */
export interface Catalog {
  readonly offers: readonly Offer[]
  /** Empty for an unknown model. */
  offersOf(modelId: string): readonly Offer[]
  offer(offerId: string): Offer | undefined
  /** By id, in the order the models first appear among the offers. */
  readonly models: ReadonlyMap<string, ModelSummary>
  /** Ids of models with a price at hosters without a connected agent. They may also have live offers. */
  readonly absent: ReadonlySet<string>
}

/** A model as customers see it: its limits and features over all offers, and its price ranges. */
export interface ModelSummary {
  readonly id: string
  /** The largest of all offers. */
  readonly contextTokens: number
  readonly maxOutputTokens: number
  /** Features that at least one offer has. */
  readonly features: ReadonlySet<Feature>
  readonly providerKinds: readonly ProviderKind[]
  /** One range for each kind that offers the model. */
  readonly prices: Partial<Record<ProviderKind, PriceRange>>
  /** The highest price of any input and of any output token at any offer, in picodollars per token. */
  readonly mostPerToken: TokenPrice
  /** When the model was first offered, Unix time in seconds. */
  readonly created: number
  /** The name of the endpoint if only one offers the model, otherwise `switchyard`. */
  readonly ownedBy: string
  readonly demo: boolean
}

/** Prices of two actual offers: those with the lowest and the highest sum of input and output price. */
export interface PriceRange {
  readonly lowest: OfferPrice
  readonly highest: OfferPrice
}

/**
 * Builds a catalog. Throws when two offers have the same id.
 *
 * @param createdOf returns when a model was first offered, Unix time in seconds
 * @param absent models of agents that are not connected
 */
export function buildCatalog(
  offers: readonly Offer[],
  createdOf: (modelId: string) => number,
  absent: ReadonlySet<string> = new Set(),
): Catalog {
  const byId = new Map(offers.map(offer => [offer.offerId, offer]))
  if (byId.size !== offers.length) throw new Error(`Two offers have the same id: ${firstRepeated(offers)}`)
  const byModel = groupBy(offers, offer => offer.modelId)
  const models = new Map([...byModel].map(([id, group]) => [id, summarise(id, group, createdOf(id))]))
  return {
    offers,
    offersOf: modelId => byModel.get(modelId) ?? [],
    offer: offerId => byId.get(offerId),
    models,
    absent,
  }
}

/** Returns what customers see of a model with these offers. */
export function summarise(id: string, offers: NonEmpty<Offer>, created: number): ModelSummary {
  const byKind = groupBy(offers, offer => offer.endpoint.kind)
  const names = new Set(offers.map(offer => offer.endpoint.name))
  return {
    id,
    contextTokens: Math.max(...offers.map(offer => offer.contextTokens)),
    maxOutputTokens: Math.max(...offers.map(offer => offer.maxOutputTokens)),
    features: new Set(offers.flatMap(offer => [...offer.features])),
    providerKinds: [...byKind.keys()],
    prices: Object.fromEntries([...byKind].map(([kind, group]) => [kind, priceRange(group)])),
    mostPerToken: mostPerToken(offers),
    created,
    ownedBy: names.size === 1 ? offers[0].endpoint.name : 'switchyard',
    demo: offers.every(offer => offer.endpoint.demo),
  }
}

function mostPerToken(offers: readonly Offer[]): TokenPrice {
  // Each step of a price holds at least what the steps below it do.
  const held = offers.map(({ price }) => price.terms?.steps.at(-1)?.held ?? price)
  return {
    inputPicoPerToken: held.map(price => price.inputPicoPerToken).reduce(higher),
    outputPicoPerToken: held.map(price => price.outputPicoPerToken).reduce(higher),
  }
}

const higher = (a: bigint, b: bigint) => (a > b ? a : b)

function priceRange(offers: NonEmpty<Offer>): PriceRange {
  const prices = offers.map(({ price }) => price)
  return {
    lowest: prices.reduce((lowest, price) => (sum(price) < sum(lowest) ? price : lowest)),
    highest: prices.reduce((highest, price) => (sum(price) >= sum(highest) ? price : highest)),
  }
}

const sum = (price: OfferPrice) => price.inputPicoPerToken + price.outputPicoPerToken

function firstRepeated(offers: readonly Offer[]): string | undefined {
  const seen = new Set<string>()
  return offers.find(({ offerId }) => seen.size === seen.add(offerId).size)?.offerId
}

/** A request keeps its price when it changes later: its offer is another one from then on. */
function atPriceOf(offer: Offer, epochMs: number): Offer {
  const { timedPrices, endpoint } = offer
  if (timedPrices === undefined) return offer
  const price = offerPrice(timedPrices, endpoint.kind, epochMs)
  // What is sold at its cost stays so.
  return { ...offer, price, ...(offer.cost === offer.price && { cost: price }) }
}

/**
 * Marks the local offers of models that hosters offer too: their answers teach the gateway what an honest report is.
 */
function withRatios(configured: readonly Offer[], hosted: readonly Offer[]): readonly Offer[] {
  const ratios = new Map(hosted.map(({ modelId, meterRatio }) => [modelId, meterRatio]))
  return configured.map(offer => {
    const meterRatio = offer.endpoint.kind === 'local' ? ratios.get(offer.modelId) : undefined
    return meterRatio === undefined ? offer : { ...offer, meterRatio }
  })
}

/**
 * Returns the offers of this process and of managed providers together. A server is sold once: what the file declares
 * counts before a managed provider of the same name, and that before what detection found at its name or address.
 */
export function withManaged(configured: readonly Offer[], managed: readonly Offer[]): readonly Offer[] {
  if (managed.length === 0) return configured
  const inFile = new Set(configured.filter(({ endpoint }) => endpoint.origin === 'file').map(idOfEndpoint))
  const used = managed.filter(offer => !inFile.has(idOfEndpoint(offer)))
  const names = new Set(used.map(idOfEndpoint))
  const hosts = new Set(used.map(hostOf))
  const isLeft = (offer: Offer) =>
    offer.endpoint.origin === 'file' ||
    offer.endpoint.demo ||
    !(names.has(idOfEndpoint(offer)) || hosts.has(hostOf(offer)))
  return [...configured.filter(isLeft), ...used]
}

const idOfEndpoint = ({ endpoint }: Offer) => endpoint.endpointId
const hostOf = ({ endpoint }: Offer) => new URL(endpoint.baseUrl).host

/** Returns the offer with the capacity of its agents; nothing when none is connected. Other offers stay as they are. */
function atAgents(offer: Offer, agentSlots: CatalogSourceOptions['agentSlots']): readonly Offer[] {
  const { endpoint, upstreamModel, capacity } = offer
  if (endpoint.transport !== 'agent') return [offer]
  const slots = agentSlots(endpoint.endpointId, upstreamModel)
  return slots === 0 ? [] : [{ ...offer, capacity: Math.min(slots, capacity ?? slots) }]
}

export interface CatalogSource {
  /** Replaces the local and cloud offers. Throws when two offers have the same id. */
  setConfigured(offers: readonly Offer[]): void
  /** Returns the offers with a price at an endpoint, also while no agent is connected for it. */
  pricedAt(endpointId: string): readonly Offer[]
  /** Calls `listener` with all local and cloud offers, now and whenever they change. */
  onOwnOffers(listener: (offers: readonly Offer[]) => void): void
  /** Builds the catalog again. Call it when agents have connected or disconnected. */
  rebuild(): void
  /** Returns the current catalog. Call it once per request. */
  current(): Catalog
  /**
   * Reads the hosters and the managed providers again. A call during a running read starts another read after it, so the new catalog is
   * never older than the call.
   */
  refresh(): Promise<void>
}

export interface CatalogSourceOptions {
  /** Local and cloud offers: configured, detected, and the demo. */
  readonly configured: readonly Offer[]
  readonly sql: Sql
  readonly masterKeys: SealingKeys
  /** Reads the settings of managed providers. */
  readonly readEndpoint: ReadEndpoint
  /** Permits hosters on private addresses. */
  readonly allowPrivateHosters: boolean
  readonly clock: Clock
  /**
   * How many requests at once the connected agents of an endpoint take for a model of their server; 0 without an agent.
   */
  readonly agentSlots: (endpointId: string, upstreamModel: string) => number
  /** Whether a server has spent its budget of this month. Call `rebuild` when that changes. */
  readonly isBudgetSpent: (endpoint: Endpoint) => boolean
  /**
   * Called for a hoster or a managed provider that cannot be offered, for example because its key does not open. The
   * others are offered.
   */
  readonly onProblem: (message: string) => void
}

/**
 * Creates the source of the catalog. It has the configured offers at once, hosters and managed providers after the
 * first `refresh`. Call `refresh` when control topic `supply` changes. Throws when two configured offers have the
 * same id.
 */
export function createCatalogSource(options: CatalogSourceOptions): CatalogSource {
  const { sql, masterKeys, readEndpoint, allowPrivateHosters, clock, agentSlots, onProblem } = options
  /** When each local or cloud model was first offered by this process. */
  const since = new Map<string, number>()
  let configured: readonly Offer[] = []
  let managed: readonly Offer[] = []
  /** What this process has and what is managed. */
  let own: readonly Offer[] = []
  const listeners: ((offers: readonly Offer[]) => void)[] = []
  let hosters: HosterOffers = { offers: [], offeredSince: new Map() }
  let catalog = buildCatalog([], () => 0)
  let running: Promise<void> | undefined
  let queued: Promise<void> | undefined

  const read = async () => {
    hosters = await readHosterOffers(sql, { masterKeys, allowPrivateHosters, onProblem, nowMs: clock.epochMs() })
    managed = await readProviderOffers(sql, { masterKeys, readEndpoint, onProblem })
    combine()
  }
  const combine = () => {
    own = withManaged(configured, managed)
    const now = Math.floor(clock.epochMs() / 1000)
    for (const { modelId } of own) if (!since.has(modelId)) since.set(modelId, now)
    build()
    for (const listener of listeners) listener(own)
  }
  /** When the prices of the catalog change with the time of the day; `Infinity` when none does. */
  let pricesEndMs = Infinity
  let builtAtMs = 0
  const build = () => {
    const now = clock.epochMs()
    builtAtMs = now
    const offers = own.map(offer => {
      const priced = atPriceOf(offer, now)
      return options.isBudgetSpent(offer.endpoint) ? { ...priced, isBudgetSpent: true as const } : priced
    })
    pricesEndMs = Math.min(...own.map(({ timedPrices }) => (timedPrices ? nextChangeMs(timedPrices, now) : Infinity)))
    const connected = hosters.offers.flatMap(offer => atAgents(offer, agentSlots))
    const isLive = new Set(connected.map(({ offerId }) => offerId))
    catalog = buildCatalog(
      [...withRatios(offers, hosters.offers), ...connected],
      id => hosters.offeredSince.get(id) ?? valueAt(since, id),
      new Set(hosters.offers.filter(({ offerId }) => !isLive.has(offerId)).map(({ modelId }) => modelId)),
    )
  }
  const setConfigured = (offers: readonly Offer[]) => {
    configured = offers
    combine()
  }
  setConfigured(options.configured)
  const start = () => {
    running = read().finally(() => {
      running = undefined
    })
    return running
  }
  return {
    current() {
      if (pricesEndMs !== Infinity) {
        const now = clock.epochMs()
        // A clock that was set back may be before the window of these prices.
        if (now >= pricesEndMs || now < builtAtMs) build()
      }
      return catalog
    },
    setConfigured,
    onOwnOffers(listener) {
      listeners.push(listener)
      listener(own)
    },
    pricedAt: endpointId => hosters.offers.filter(({ endpoint }) => endpoint.endpointId === endpointId),
    rebuild: build,
    refresh() {
      if (!running) return start()
      queued ??= running
        .catch(() => {})
        .then(() => {
          queued = undefined
          return start()
        })
      return queued
    },
  }
}
