import type { FastifyRequest } from 'fastify'
import { refuseOutage } from '../../base/db/refuse-outage.ts'
import { CancelSource } from '../../base/runtime/cancel-signal.ts'
import { uncounted } from '../../base/runtime/counted-memory.ts'
import type { Endpoint } from '../../http/endpoint.ts'
import { hosterEndpoints } from '../../http/hosters/hoster-endpoints.ts'
import { hosterInviteEndpoints } from '../../http/hosters/hoster-invites.ts'
import { hosterKeyEndpoints, hosterPeopleEndpoints } from '../../http/hosters/hoster-people.ts'
import { hosterReports } from '../../http/hosters/hoster-reports.ts'
import { publicHosterEndpoints } from '../../http/hosters/public-hosters.ts'
import { applyDuePrices } from '../../market/marketplace/apply-prices.ts'
import { createHosterAuthenticator, type HosterAuthenticator } from '../../market/marketplace/hoster-authenticator.ts'
import { createHosterInvites, type HosterInvites } from '../../market/marketplace/hoster-invites.ts'
import { createHosterService } from '../../market/marketplace/hoster-service.ts'
import type { MarketplaceJobs } from '../../market/marketplace/marketplace-jobs.ts'
import { enqueueDueProbes, probeModels } from '../../market/marketplace/probe-models.ts'
import { publicHosters } from '../../market/marketplace/public-hosters.ts'
import type { ManifestRules } from '../../market/marketplace/put-manifest.ts'
import { type OfferMarket, showOffers } from '../../market/marketplace/show-offers.ts'
import { showStatus } from '../../market/marketplace/show-status.ts'
import { showTraffic } from '../../market/marketplace/traffic.ts'
import { verifyHoster } from '../../market/marketplace/verify-hoster.ts'
import { readHosterEndpoint } from '../../market/supply/hosters/hoster-offers.ts'
import { expectedCostPicos } from '../../request/route/route.ts'
import { balancedShares } from '../../request/route/tier-order.ts'
import { getJson } from '../../wire/egress/get-json.ts'
import type { Callers } from './callers.ts'
import { type ComposeContext, smallBodyLimit } from './compose-context.ts'
import type { Database } from './database.ts'
import { pageUrl } from './page-url.ts'
import type { PeopleMailParts } from './people-mail.ts'
import type { Supply } from './supply.ts'

/** Hosters that join by themselves: their keys, endpoints and jobs. */
export interface Marketplace {
  readonly authenticator: HosterAuthenticator
  readonly jobs: MarketplaceJobs
  readonly invites: HosterInvites
  readonly endpoints: readonly Endpoint[]
}

const ANSWER_BYTES_MAX = 1_000_000
const LIST_TIMEOUT_MS = 10_000
const PROBE_TIMEOUT_MS = 30_000
/** Connections to hosters carry requests of one customer only. Probes have their own. */
const PROBING_CUSTOMER = 'verification'

interface MarketplaceParts {
  readonly database: Database
  readonly supply: Supply
  readonly callers: Callers
  readonly peopleMail: PeopleMailParts
  readonly addressOf: (request: FastifyRequest) => string
}

export function startMarketplace(
  { config, clock, masterKeys, started }: ComposeContext,
  {
    database: { lookups, general: pool, desk: deskPool },
    supply: { catalog, isOwnModel, upstream, publicLookup },
    callers: { changes },
    peopleMail: { invitations },
    addressOf,
  }: MarketplaceParts,
): Marketplace {
  const authenticator = createHosterAuthenticator({
    sql: lookups,
    clock,
    onAccessChange: listener => changes.onChange('access', listener),
  })
  started.defer(() => authenticator.close())
  const { hosters, platform, routing } = config
  const { allowPrivateUrls, priceRules } = hosters
  const rules: ManifestRules = {
    isOwnModel,
    get max() {
      return priceRules.max
    },
    get changeIntervalMs() {
      return priceRules.changeIntervalMs
    },
    get risePercent() {
      return priceRules.risePercent
    },
    get riseNoticeMs() {
      return priceRules.riseNoticeMs
    },
  }
  const service = createHosterService({
    pool,
    deskPool,
    clock,
    rules,
    server: { masterKeys, allowPrivateUrls },
    get shareBps() {
      return platform.hosterShareBps
    },
    get acceptsApplications() {
      return hosters.applications === 'open'
    },
    get payouts() {
      return config.payouts
    },
  })
  const invites = createHosterInvites({
    invitations,
    server: { masterKeys, allowPrivateUrls },
    shareBps: () => platform.hosterShareBps,
  })
  const verify = {
    pool,
    clock,
    rules,
    get approvesAutomatically() {
      return hosters.approval === 'automatic'
    },
    endpointOf: (hosterId: string) =>
      readHosterEndpoint(pool, hosterId, { masterKeys, allowPrivateHosters: allowPrivateUrls }),
    get: ({ baseUrl, apiKey, egress }, path) =>
      getJson(`${baseUrl}${path}`, {
        timeoutMs: LIST_TIMEOUT_MS,
        bytesMax: ANSWER_BYTES_MAX,
        ...(apiKey !== null && { headers: { authorization: `Bearer ${apiKey}` } }),
        ...(egress === 'public_only' && { lookup: publicLookup }),
      }),
    async post(endpoint, path, body) {
      const exchange = await upstream.send({
        endpoint,
        customerId: PROBING_CUSTOMER,
        // An agent is chosen by the model.
        upstreamModel: (JSON.parse(body) as { model: string }).model,
        path,
        body,
        stream: false,
        limits: {
          connectMs: endpoint.timeouts.connectMs,
          firstByteMs: PROBE_TIMEOUT_MS,
          idleMs: PROBE_TIMEOUT_MS,
          totalMs: PROBE_TIMEOUT_MS,
        },
        bytesMax: ANSWER_BYTES_MAX,
        signal: new CancelSource(),
        memory: uncounted,
      })
      return { status: exchange.head.status, text: exchange.text }
    },
  } satisfies Parameters<typeof verifyHoster>[0]
  const market: OfferMarket = {
    rules,
    get cloudCompetes() {
      return routing.cloudCompetes
    },
    ranking: {
      costPicos: expectedCostPicos,
      shares: pool => balancedShares(pool, routing.priceLimits.balancedPercent),
    },
    competitors: (modelId, hosterId) =>
      catalog
        .current()
        .offersOf(modelId)
        .filter(({ endpoint }) => endpoint.hosterId !== hosterId)
        .map(({ endpoint: { kind, name, shownTrust = 0 }, price }) => ({
          name: kind === 'hoster' ? name : null,
          provider: kind,
          price,
          trust: kind === 'hoster' ? shownTrust : 1,
          isLast: kind === 'cloud' && !routing.cloudCompetes,
        })),
  }
  const shared = {
    service,
    invites,
    mayInvite: config.accounts.signUp !== 'closed',
    addressOf,
    urlFor: pageUrl(config.server.publicBaseUrl),
    clock,
    bodyLimitBytes: smallBodyLimit(config.server.bodyLimitBytes),
  }
  return {
    authenticator,
    invites,
    jobs: {
      verify: hosterId => verifyHoster(verify, hosterId),
      probe: hosterId => probeModels(verify, hosterId),
      async applyPrices() {
        await applyDuePrices(pool, clock.epochMs())
        await enqueueDueProbes(pool, clock.epochMs())
      },
    },
    endpoints: [
      ...hosterEndpoints(shared),
      ...hosterKeyEndpoints(shared),
      ...hosterPeopleEndpoints(shared),
      ...hosterInviteEndpoints(shared),
      ...hosterReports({
        clock,
        status: hosterId => showStatus(pool, hosterId, clock.epochMs()).catch(refuseOutage),
        offers: hosterId => showOffers(pool, hosterId, market, clock.epochMs()).catch(refuseOutage),
        traffic: (hosterId, span) => showTraffic(pool, hosterId, span).catch(refuseOutage),
      }),
      ...publicHosterEndpoints({
        read: hosterId => publicHosters(pool, hosterId, clock.epochMs()).catch(refuseOutage),
      }),
    ],
  }
}
