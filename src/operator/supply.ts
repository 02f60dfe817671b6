import type {
  OperatorHosters,
  OperatorModels,
  PriceVersions,
  parseHosterChange,
  parsePriceChange,
} from '../api/operator/supply.ts'
import type { Pool, Sql } from '../db/pool.ts'
import { ApiError } from '../domain/errors.ts'
import type { Offer } from '../domain/offer.ts'
import { SupplyError } from '../domain/supply-error.ts'
import { noteAction } from '../people/audit-log.ts'
import { type HostedModel, hostedModel, PRICE_COLUMNS, type PriceRow } from '../supply/hosters/hosted-model.ts'
import { listHosters, updateHoster } from '../supply/hosters/hosters.ts'
import { changeHosterPrice } from '../supply/hosters/set-hoster-price.ts'
import { type Actor, act } from './operator-action.ts'
import { listServers } from './servers.ts'

/** Returns what is sold now, by model, with the state of each server. */
export async function listModels(sql: Sql, offers: readonly Offer[], nowMs: number): Promise<OperatorModels> {
  const servers = await listServers(sql, offers, nowMs)
  const shown = offers.map((offer, index) => {
    const { model: _, ...server } = servers[index]!
    return {
      ...server,
      upstream_model: offer.upstreamModel,
      input_usd_per_million: perMillion(offer.price.inputPicoPerToken),
      output_usd_per_million: perMillion(offer.price.outputPicoPerToken),
      has_more_prices: offer.price.terms !== undefined || offer.timedPrices !== undefined,
      context_tokens: offer.contextTokens,
      max_output_tokens: offer.maxOutputTokens,
      features: [...offer.features],
      hoster_id: offer.endpoint.hosterId,
      trust_score: offer.endpoint.trustScore,
    }
  })
  const byModel = Map.groupBy(shown.keys(), index => offers[index]!.modelId)
  return { data: [...byModel].map(([id, indexes]) => ({ id, offers: indexes.map(index => shown[index]!) })) }
}

/** Returns up to 200 versions of hosters' prices, the newest first. Null: of all models. */
export async function listPriceVersions(sql: Sql, modelId: string | null): Promise<PriceVersions> {
  const { rows } = await sql.query<
    PriceRow & { hoster_id: string; name: string; valid_from: Date; valid_until: Date | null }
  >(PRICE_VERSIONS, [modelId])
  return {
    data: rows.map(row => ({
      hoster_id: row.hoster_id,
      hoster: row.name,
      ...shownPrice({ ...hostedModel(row), priceVersion: row.version }),
      valid_from: row.valid_from.toISOString(),
      valid_until: row.valid_until?.toISOString() ?? null,
    })),
  }
}

const PRICE_VERSIONS = `
SELECT ${PRICE_COLUMNS}, h.hoster_id, h.name, p.valid_from, p.valid_until
FROM hoster_price p JOIN hoster_endpoint USING (endpoint_id) JOIN hoster h USING (hoster_id)
WHERE $1::text IS NULL OR p.model_id = $1
ORDER BY p.valid_from DESC, h.name, p.model_id LIMIT 200`

export async function showHosters(sql: Sql): Promise<OperatorHosters> {
  const hosters = await listHosters(sql)
  return {
    data: hosters.map(hoster => ({
      id: hoster.hosterId,
      name: hoster.name,
      state: hoster.state,
      trust_score: hoster.trustScore,
      share: hoster.shareBps / 10_000,
      base_url: hoster.baseUrl,
      has_key: hoster.hasKey,
      created_at: hoster.createdAt.toISOString(),
      models: hoster.models.map(shownPrice),
    })),
  }
}

/**
 * Sets a price like `switchyard hoster price`: running requests keep the old one. Throws `not_found` for an unknown hoster and
 * `invalid_value` for a price that is refused.
 */
export function setPrice(
  pool: Pool,
  actor: Actor,
  hosterId: string,
  change: ReturnType<typeof parsePriceChange>,
): Promise<{ version: number }> {
  return act(pool, async sql => {
    const { name, version } = await changeHosterPrice(sql, hosterId, change).catch(refuse)
    const { inputPicoPerToken, outputPicoPerToken } = change.price
    await noteAction(sql, {
      action: 'price.changed',
      personId: actor.personId,
      subject: name,
      detail: {
        model: change.modelId,
        version,
        input_usd_per_million: perMillion(inputPicoPerToken),
        output_usd_per_million: perMillion(outputPicoPerToken),
      },
      address: actor.address,
    })
    return { version }
  })
}

/** Changes state or trust score like `switchyard hoster activate`, `suspend` and `trust`. Throws like `setPrice`. */
export function changeHoster(
  pool: Pool,
  actor: Actor,
  hosterId: string,
  change: ReturnType<typeof parseHosterChange>,
): Promise<void> {
  return act(pool, async sql => {
    const { rows } = await sql.query<{ state: string; trust_score: number }>(
      'SELECT state, trust_score FROM hoster WHERE hoster_id = $1 FOR UPDATE',
      [hosterId],
    )
    const { name } = await updateHoster(sql, hosterId, change).catch(refuse)
    const after = { state: change.state, trust_score: change.trustScore }
    await noteAction(sql, {
      action: 'hoster.changed',
      personId: actor.personId,
      subject: name,
      detail: { before: rows[0], after },
      address: actor.address,
    })
  })
}

function refuse(error: unknown): never {
  if (!(error instanceof SupplyError)) throw error
  if (error.code === 'unknown_hoster')
    throw new ApiError('not_found', { message: 'There is no such hoster. Reload the list.' })
  throw new ApiError('invalid_value', { message: error.message })
}

function shownPrice({
  modelId,
  upstreamModel,
  price,
  priceVersion,
  contextTokens,
  maxOutputTokens,
  features,
}: Required<HostedModel> & { readonly priceVersion: number }) {
  const optional = (pico: bigint | undefined) => (pico === undefined ? null : perMillion(pico))
  return {
    model: modelId,
    upstream_model: upstreamModel ?? modelId,
    version: priceVersion,
    input_usd_per_million: perMillion(price.inputPicoPerToken),
    output_usd_per_million: perMillion(price.outputPicoPerToken),
    cache_read_usd_per_million: optional(price.cacheReadPicoPerToken),
    cache_write_usd_per_million: optional(price.cacheWritePicoPerToken),
    context_tokens: contextTokens,
    max_output_tokens: maxOutputTokens,
    features: [...features],
  }
}

/** Picodollars per token are microdollars per million tokens. */
function perMillion(pico: bigint): number {
  return Number(pico) / 1_000_000
}
