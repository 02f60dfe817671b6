import type { Sql } from '../../../base/db/pool.ts'
import { standardQuirks, standardTimeouts } from '../../../base/domain/endpoint-defaults.ts'
import { evenRatio, type MeterRatio } from '../../../base/domain/meter-ratio.ts'
import type { Endpoint, Offer } from '../../../base/domain/offer.ts'
import { offerPrice } from '../../../base/domain/price-list.ts'
import type { SealingKeys } from '../../../base/domain/sealing-keys.ts'
import { SupplyError } from '../../../base/domain/supply-error.ts'
import { openSupplyKey } from '../open-supply-key.ts'
import { checkHosterUrl } from './check-hoster.ts'
import { hostedModel, PRICE_COLUMNS, type PriceRow, priceListOf } from './hosted-model.ts'
import type { HosterTransport } from './hosters.ts'
import { SHOWN_SCORE, shownDay } from './shown-score.ts'

export interface HosterOffers {
  readonly offers: readonly Offer[]
  /** For each model the Unix time in seconds of its first price. */
  readonly offeredSince: ReadonlyMap<string, number>
}

export interface HosterOffersOptions {
  readonly masterKeys: SealingKeys
  readonly allowPrivateHosters: boolean
  readonly onProblem: (message: string) => void
}

/**
 * Reads the current prices of active hosters as offers, without those of ids that nobody has approved. Reports and
 * skips an endpoint if its key cannot be decrypted or its URL is not allowed.
 */
export async function readHosterOffers(
  sql: Sql,
  { nowMs, ...options }: HosterOffersOptions & { readonly nowMs: number },
): Promise<HosterOffers> {
  const { rows } = await sql.query<HosterPriceRow>(SELECT_CURRENT_PRICES, [shownDay(nowMs)])
  const endpoints = new Map<string, Endpoint | undefined>()
  const offers: Offer[] = []
  const offeredSince = new Map<string, number>()
  for (const row of rows) {
    if (!endpoints.has(row.endpoint_id)) endpoints.set(row.endpoint_id, toEndpoint(row, options))
    const endpoint = endpoints.get(row.endpoint_id)
    if (!endpoint) continue
    offers.push(toOffer(row, endpoint))
    const since = Math.floor(row.offered_since.getTime() / 1000)
    offeredSince.set(row.model_id, Math.min(since, offeredSince.get(row.model_id) ?? since))
  }
  return { offers, offeredSince }
}

/**
 * Returns the server of a hoster in any state, to verify it. Throws SupplyError `unknown_hoster`, or when its address
 * is not allowed or its key cannot be decrypted.
 */
export async function readHosterEndpoint(
  sql: Sql,
  hosterId: string,
  options: Pick<HosterOffersOptions, 'masterKeys' | 'allowPrivateHosters'>,
): Promise<Endpoint> {
  const { rows } = await sql.query<EndpointRow>(SELECT_ENDPOINT, [hosterId])
  if (rows[0] === undefined) throw new SupplyError('unknown_hoster', `There is no hoster with the id "${hosterId}".`)
  return endpointOf(rows[0], options)
}

interface EndpointRow {
  hoster_id: string
  name: string
  trust_score: number
  share_bps: number
  endpoint_id: string
  base_url: string
  transport: HosterTransport
  key_sealed: Buffer | null
}

interface HosterPriceRow extends PriceRow, EndpointRow {
  shown_trust: number
  offered_since: Date
  /** Null: not learned yet. */
  meter_ratio: MeterRatio | null
}

const ENDPOINT_COLUMNS = `h.hoster_id, h.name, h.trust_score, h.share_bps, e.endpoint_id, e.base_url, e.transport, e.key_sealed`

const SELECT_ENDPOINT = `
  SELECT ${ENDPOINT_COLUMNS} FROM hoster h JOIN hoster_endpoint e USING (hoster_id)
   WHERE h.hoster_id = $1 ORDER BY e.created_at, e.endpoint_id LIMIT 1`

const SELECT_CURRENT_PRICES = `
  SELECT ${ENDPOINT_COLUMNS}, ${SHOWN_SCORE} AS shown_trust,
         ${PRICE_COLUMNS}, first.valid_from AS offered_since, r.ratio AS meter_ratio
  FROM hoster h
  JOIN hoster_endpoint e USING (hoster_id)
  JOIN hoster_price p ON p.endpoint_id = e.endpoint_id AND p.valid_until IS NULL
  JOIN hoster_model m ON m.model_id = p.model_id AND m.state = 'approved'
  JOIN hoster_price first ON first.endpoint_id = p.endpoint_id AND first.model_id = p.model_id AND first.version = 1
  LEFT JOIN meter_ratio r ON r.model_id = p.model_id
  WHERE h.state = 'active'
  ORDER BY h.created_at, h.hoster_id, p.model_id`

function toEndpoint(row: HosterPriceRow, options: HosterOffersOptions): Endpoint | undefined {
  try {
    return { ...endpointOf(row, options), shownTrust: row.shown_trust }
  } catch (error) {
    if (!(error instanceof SupplyError)) throw error
    options.onProblem(`Hoster "${row.name}" is not offered. ${error.message}`)
    return undefined
  }
}

function endpointOf(
  row: EndpointRow,
  options: Pick<HosterOffersOptions, 'masterKeys' | 'allowPrivateHosters'>,
): Endpoint {
  const owner = { ownerId: row.hoster_id, purpose: 'upstream_key' } as const
  // Check again: private addresses may have been allowed when the hoster was added, and the pinned lookup
  // only checks host names, never literal addresses.
  if (row.transport === 'direct') checkHosterUrl(row.base_url, { allowPrivate: options.allowPrivateHosters })
  const apiKey = row.key_sealed ? openSupplyKey(options.masterKeys, row.key_sealed, owner) : null
  return {
    endpointId: row.endpoint_id,
    kind: 'hoster',
    hosterId: row.hoster_id,
    name: row.name,
    baseUrl: row.base_url,
    apiKey,
    dialect: standardQuirks,
    timeouts: standardTimeouts,
    trustScore: row.trust_score,
    hosterShareBps: row.share_bps,
    demo: false,
    egress: options.allowPrivateHosters && row.transport === 'direct' ? 'any' : 'public_only',
    ...(row.transport === 'agent' && { transport: 'agent' }),
  }
}

function toOffer(row: HosterPriceRow, endpoint: Endpoint): Offer {
  return {
    offerId: `${endpoint.endpointId}/${row.model_id}`,
    endpoint,
    modelId: row.model_id,
    upstreamModel: row.upstream_model,
    price: offerPrice(priceListOf(hostedModel(row).price), 'hoster', 0),
    priceVersion: row.version,
    contextTokens: row.context_tokens,
    maxOutputTokens: row.max_output_tokens,
    ...(row.max_concurrent !== null && { capacity: row.max_concurrent }),
    features: new Set(row.features),
    meterRatio: ratioOf(row.meter_ratio),
  }
}

/** The row has figures that only audits need. */
function ratioOf(learned: MeterRatio | null): MeterRatio {
  return learned === null ? evenRatio : { input: learned.input, output: learned.output }
}
