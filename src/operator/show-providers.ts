import type { Sql } from '../base/db/pool.ts'
import { type Nanos, type TokenPrice, usd } from '../base/domain/money.ts'
import type { Offer } from '../base/domain/offer.ts'
import { type ProviderSecrets, providerSecrets } from '../base/domain/provider-secrets.ts'
import type { SealingKeys } from '../base/domain/sealing-keys.ts'
import { SupplyError } from '../base/domain/supply-error.ts'
import { elementAt } from '../base/runtime/collections.ts'
import type { JsonObject } from '../base/runtime/json-object.ts'
import type { FindInLibrary } from '../market/supply/providers/price-library.ts'
import { readMonthCosts } from '../market/supply/providers/provider-budgets.ts'
import { presetAt } from '../market/supply/providers/provider-presets.ts'
import {
  listProviders,
  modelEntriesOf,
  openProviderSecrets,
  type Provider,
  type ReadEndpoint,
} from '../market/supply/providers/providers.ts'
import type { OperatorProviders } from '../wire/api/operator/providers.ts'
import { listServers } from './servers.ts'

export interface ShowProvidersDeps {
  readonly sql: Sql
  readonly masterKeys: SealingKeys
  readonly readEndpoint: ReadEndpoint
  /** The local and cloud offers of this node. */
  readonly offers: () => readonly Offer[]
  /** The names of the endpoints in switchyard.yaml. */
  readonly namesInFile: () => ReadonlySet<string>
  readonly nowMs: () => number
}

type Shown = OperatorProviders['data'][number]
type Budget = Pick<Shown, 'spent_this_month_usd' | 'monthly_budget_usd' | 'is_budget_spent'>

/**
 * Returns the providers that are managed, with their settings and without keys, then those of the file and those that were
 * found.
 *
 * @param find proposes list prices
 */
export async function showProviders(deps: ShowProvidersDeps, find: FindInLibrary): Promise<Shown[]> {
  const { sql, offers: allOffers, nowMs } = deps
  const offers = allOffers().filter(({ endpoint }) => endpoint.kind !== 'hoster' && !endpoint.demo)
  const servers = await listServers(sql, offers, nowMs())
  const serverOf = new Map(servers.map(server => [`${server.endpoint_id}/${server.model}`, server]))
  const serverAt = (endpointId: string, modelId: string) => {
    const server = serverOf.get(`${endpointId}/${modelId}`)
    if (server === undefined) return null
    const { endpoint_id: _, name: __, provider: ___, model: ____, ...state } = server
    return state
  }
  const providers = await listProviders(sql)
  const names = new Set([...providers.map(({ name }) => name), ...offers.map(({ endpoint }) => endpoint.endpointId)])
  const spent = await readMonthCosts(sql, [...names], nowMs())
  const budgetOf = (name: string, budgetNanos: Nanos | undefined) => {
    const nanos = spent.get(name) ?? 0n
    return {
      spent_this_month_usd: usd(nanos),
      monthly_budget_usd: budgetNanos === undefined ? null : usd(budgetNanos),
      is_budget_spent: budgetNanos !== undefined && nanos >= budgetNanos,
    }
  }
  const managed = providers.map(provider => shownProvider(deps, provider, find, serverAt, budgetOf))
  const others = Map.groupBy(
    offers.filter(({ endpoint }) => endpoint.origin !== 'managed'),
    ({ endpoint }) => endpoint.endpointId,
  )
  return [
    ...managed,
    ...[...others.values()].map((group): Shown => {
      const { endpoint } = elementAt(group, 0)
      return {
        name: endpoint.name,
        title: presetAt(endpoint.baseUrl)?.title ?? null,
        origin: endpoint.origin === 'file' ? 'file' : 'found',
        kind: endpoint.kind,
        base_url: endpoint.baseUrl,
        is_enabled: true,
        problem: null,
        version: null,
        settings: null,
        secrets: [],
        reason: null,
        changed_at: null,
        proposed_models: [],
        asked_at: null,
        ask_problem: null,
        ...budgetOf(endpoint.endpointId, endpoint.monthlyBudgetNanos),
        models: group.map(offer => ({
          id: offer.modelId,
          upstream_model: offer.upstreamModel,
          is_enabled: true,
          weight: shownWeight(offer),
          price: shownPrice(offer.price),
          cost: offer.cost ? shownPrice(offer.cost) : null,
          list_price: null,
          server: serverAt(endpoint.endpointId, offer.modelId),
        })),
      }
    }),
  ]
}

function shownProvider(
  { masterKeys, readEndpoint, namesInFile }: ShowProvidersDeps,
  provider: Provider,
  find: FindInLibrary,
  serverAt: (endpointId: string, modelId: string) => Shown['models'][number]['server'],
  budgetOf: (name: string, budgetNanos: Nanos | undefined) => Budget,
): Shown {
  const { name, version, reason, changedAt } = provider
  const settings = provider.settings ?? {}
  let problem = namesInFile().has(name) ? 'switchyard.yaml declares an endpoint of this name, which counts.' : null
  let secrets: ProviderSecrets = {}
  const priced = (key: 'price_per_million_usd' | 'cost_per_million_usd') => {
    const models = modelEntriesOf(settings).flatMap(model =>
      model[key] === undefined ? [] : [{ ...model, enabled: true, price_per_million_usd: model[key] }],
    )
    if (models.length === 0) return new Map<string, Offer>()
    const offers = readEndpoint({ ...settings, ...secrets, enabled: true, models })
    return new Map(offers.map(offer => [offer.modelId, offer]))
  }
  let [prices, costs] = [new Map<string, Offer>(), new Map<string, Offer>()]
  try {
    secrets = openProviderSecrets(masterKeys, provider)
    prices = priced('price_per_million_usd')
    costs = priced('cost_per_million_usd')
  } catch (error) {
    if (!(error instanceof SupplyError)) throw error
    problem ??= error.message
  }
  const baseUrl = String(settings.base_url)
  const preset = URL.canParse(baseUrl) ? presetAt(baseUrl) : undefined
  return {
    name,
    title: preset?.title ?? null,
    origin: 'managed',
    kind: settings.kind === 'local' ? 'local' : 'cloud',
    base_url: baseUrl,
    is_enabled: !isOff(settings),
    problem,
    version,
    settings,
    secrets: providerSecrets.filter(secret => secrets[secret] !== undefined),
    reason,
    changed_at: changedAt.toISOString(),
    // What was added since is no proposal any more.
    proposed_models: provider.proposedModels
      .filter(({ id }) => !modelEntriesOf(settings).some(model => model.id === id))
      .map(entry => ({ id: String(entry.id), entry })),
    asked_at: provider.askedAt?.toISOString() ?? null,
    ask_problem: provider.askProblem,
    ...budgetOf(name, prices.values().next().value?.endpoint.monthlyBudgetNanos),
    models: modelEntriesOf(settings).map(model => {
      const id = String(model.id)
      const upstreamModel = typeof model.upstream_model === 'string' ? model.upstream_model : id
      const [price, cost] = [prices.get(id), costs.get(id)]
      const listed = preset?.libraryId == null ? null : find(preset.libraryId, upstreamModel)
      const list = listed && {
        input_usd_per_million: Number(listed.prices.input),
        output_usd_per_million: Number(listed.prices.output),
      }
      const shownCost = cost ? shownPrice(cost.price) : null
      const isNews = list !== null && shownCost !== null && JSON.stringify(list) !== JSON.stringify(shownCost)
      return {
        id,
        upstream_model: upstreamModel,
        is_enabled: !isOff(model),
        weight: shownWeight(price),
        price: price ? shownPrice(price.price) : { input_usd_per_million: 0, output_usd_per_million: 0 },
        cost: shownCost,
        list_price: isNews ? list : null,
        server: serverAt(name, id),
      }
    }),
  }
}

/** As the schema of the file reads it. */
function isOff({ enabled }: JsonObject): boolean {
  return enabled === false || enabled === 'false'
}

const shownWeight = (offer: Pick<Offer, 'weight'> | undefined) => Math.round((offer?.weight ?? 1) * 100)

function shownPrice({ inputPicoPerToken, outputPicoPerToken }: TokenPrice) {
  return {
    input_usd_per_million: Number(inputPicoPerToken) / 1_000_000,
    output_usd_per_million: Number(outputPicoPerToken) / 1_000_000,
  }
}
