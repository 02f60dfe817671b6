import type { LookupFunction } from 'node:net'
import type { Caller } from '../../base/domain/caller.ts'
import type { CustomerBreakers } from '../../base/domain/health.ts'
import { serves } from '../../base/domain/offer.ts'
import { atMostEvery } from '../../base/runtime/at-most-every.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { geminiModels } from '../../http/endpoints/gemini-models.ts'
import { modelShow, modelsList } from '../../http/endpoints/models.ts'
import { AttemptTally } from '../../market/supply/breakers/attempt-tally.ts'
import {
  createCustomerBreakers,
  type OffersKeptAway,
  splitCustomerOfferKey,
} from '../../market/supply/breakers/customer-breakers.ts'
import { createHealth } from '../../market/supply/breakers/health.ts'
import type { HealthEvent } from '../../market/supply/breakers/offer-report.ts'
import type { OwnHealth } from '../../market/supply/breakers/own-health.ts'
import { type CatalogSource, createCatalogSource } from '../../market/supply/catalog/catalog.ts'
import { createNewcomers, type Newcomers } from '../../market/supply/newcomers/newcomers.ts'
import { createProviderBudgets, type ProviderBudgets } from '../../market/supply/providers/provider-budgets.ts'
import { createAgentPresence } from '../../market/supply/status/agent-presence.ts'
import { type Charges, createCharges } from '../../market/supply/status/server-reporter.ts'
import { pricedFor } from '../../request/admit/admit.ts'
import { createPinnedLookup } from '../../wire/egress/pinned-lookup.ts'
import { AgentStock } from '../../wire/upstreams/agents/agent-stock.ts'
import { UpstreamClient } from '../../wire/upstreams/upstream-client.ts'
import { readEndpoint } from '../config/read-endpoint.ts'
import type { ComposeContext } from './compose-context.ts'
import type { Database } from './database.ts'
import type { Money } from './money.ts'

/** The offers of this node, their breakers, and the client that calls their servers. */
export interface Supply {
  readonly catalog: CatalogSource
  readonly breakers: CustomerBreakers & OffersKeptAway
  /** All attempts at the offers, for reports. */
  readonly attempts: AttemptTally
  /** The shared health of the offers, and a listener of its changes. */
  readonly health: { readonly shared: OwnHealth; onChange(listener: (event: HealthEvent) => void): void }
  /** What the answers of each offer cost. */
  readonly charges: Charges
  readonly newcomers: Newcomers
  /** Whether a server of the operator or a cloud has this model id: hosters that offer it are compared with it. */
  readonly isOwnModel: (modelId: string) => boolean
  readonly upstream: UpstreamClient
  /** The connections of hosters' agents to this node. */
  readonly agents: AgentStock
  /** Resolves a host name to public addresses only. */
  readonly publicLookup: LookupFunction
  readonly endpoints: readonly Endpoint[]
}

const REBUILDS = { intervalMs: 100, burst: 50 }

/** Loads the catalog once; `startCallers` refreshes it when hosters or prices change. */
export async function startSupply(context: ComposeContext, database: Database, { node }: Money): Promise<Supply> {
  const { config, offers, masterKeys, version, clock, timeouts, log, started } = context
  const agents = new AgentStock()
  const presence = createAgentPresence({
    sql: database.general,
    nodeId: () => node.nodeId,
    stock: agents,
    onChange: () => catalog.rebuild(),
    scheduler: context.scheduler,
    log,
    ...(timeouts.serverReportIntervalMs !== undefined && { everyMs: timeouts.serverReportIntervalMs }),
  })
  const budgets: ProviderBudgets = createProviderBudgets({
    sql: database.general,
    offers: () => catalog.current().offers,
    onChange: () => catalog.rebuild(),
    scheduler: context.scheduler,
    log,
    ...(timeouts.serverReportIntervalMs !== undefined && { everyMs: timeouts.serverReportIntervalMs }),
  })
  const catalog: CatalogSource = createCatalogSource({
    configured: offers,
    sql: database.general,
    masterKeys,
    readEndpoint,
    allowPrivateHosters: config.hosters.allowPrivateUrls,
    clock,
    agentSlots: presence.slotsOf,
    isBudgetSpent: endpoint => budgets.isSpent(endpoint),
    onProblem: problem => log.error(problem),
  })
  // An agent that pauses and resumes hundreds of times a second must not keep the node busy.
  agents.onChange = atMostEvery(REBUILDS, context.scheduler, () => catalog.rebuild())
  await presence.refresh()
  presence.start()
  started.defer(() => presence.stop())
  await catalog.refresh()
  await budgets.refresh()
  budgets.start()
  started.defer(() => budgets.stop())
  const publicLookup = createPinnedLookup()
  const upstream = new UpstreamClient({
    version,
    agents,
    publicLookup,
    onUsedUp: () =>
      log.error('no connection to a server can be opened: raise the limit of open files or of local ports'),
    onUnsolicited: ({ endpointId, kind }) =>
      log.warn(
        { endpointId, kind },
        'a server sent bytes that no request asked for: its connections are not reused for five minutes',
      ),
  })
  started.defer(() => upstream.close())
  const { breakers, attempts, health } = createBreakers(context)
  const isOwnModel = (modelId: string) =>
    catalog
      .current()
      .offersOf(modelId)
      .some(({ endpoint }) => endpoint.kind !== 'hoster')
  const newcomers = createNewcomers({
    pool: database.general,
    limits: config.routing.newcomers,
    needsComparison: offerId => {
      const offer = catalog.current().offer(offerId)
      return offer !== undefined && serves(offer, 'chat') && isOwnModel(offer.modelId)
    },
    inFlight: health.shared.inFlight.bind(health.shared),
    scheduler: context.scheduler,
    log,
  })
  await newcomers.refresh()
  newcomers.start()
  started.defer(() => newcomers.stop())
  const models = (caller: Caller) => pricedFor(catalog.current(), caller).models
  const { priceLimits } = config.routing
  return {
    catalog,
    breakers,
    attempts,
    health,
    charges: createCharges(),
    newcomers,
    isOwnModel,
    upstream,
    agents,
    publicLookup,
    endpoints: [modelsList({ models, priceLimits }), modelShow({ models, priceLimits }), ...geminiModels({ models })],
  }
}

function createBreakers({ clock, random, log }: ComposeContext): Pick<Supply, 'breakers' | 'attempts' | 'health'> {
  const listeners: ((event: HealthEvent) => void)[] = []
  const shared = createHealth({
    clock,
    random,
    onEvent: event => {
      log.info(event, 'the health of an offer changed')
      for (const listener of listeners) listener(event)
    },
  })
  const perCustomer = createHealth({
    clock,
    random,
    onEvent: event =>
      log.info(
        { ...event, ...splitCustomerOfferKey(event.offerId) },
        'the health of an offer changed for a single customer',
      ),
  })
  const attempts = new AttemptTally(clock)
  return {
    breakers: createCustomerBreakers(shared, perCustomer, attempts),
    attempts,
    health: { shared, onChange: listener => listeners.push(listener) },
  }
}
