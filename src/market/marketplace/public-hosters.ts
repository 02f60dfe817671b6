import type { Sql } from '../../base/db/pool.ts'
import type { HosterState } from '../../base/domain/hoster-state.ts'
import { usdPerTokenText } from '../../base/domain/money.ts'
import type { Manifest } from '../../wire/api/hoster-manifest.ts'
import type { HosterFacts } from '../../wire/api/public-hosters.ts'
import { hostedModel, PRICE_COLUMNS, type PriceRow } from '../supply/hosters/hosted-model.ts'
import { SHOWN_SCORE, shownDay } from '../supply/hosters/shown-score.ts'

interface FactsRow {
  readonly hosterId: string
  readonly name: string
  readonly state: HosterState
  readonly trustScore: number
  readonly activeSince: Date
  readonly manifest: Manifest | null
}

/**
 * Returns what customers may know of hosters, oldest first: of all that were ever active and are not retired, or of the
 * one with this id. Contains no address and no key.
 */
export async function publicHosters(sql: Sql, hosterId: string | null, nowMs: number): Promise<HosterFacts[]> {
  const { rows: hosters } = await sql.query<FactsRow>(
    `SELECT h.hoster_id AS "hosterId", name, state, ${SHOWN_SCORE} AS "trustScore", active_since AS "activeSince", m.body AS manifest
       FROM hoster h LEFT JOIN LATERAL (
         SELECT body FROM hoster_manifest m WHERE m.hoster_id = h.hoster_id ORDER BY version DESC LIMIT 1) m ON true
      WHERE active_since IS NOT NULL AND state <> 'retired' AND ($2::uuid IS NULL OR h.hoster_id = $2)
      ORDER BY active_since, h.hoster_id LIMIT 1000`,
    [shownDay(nowMs), hosterId],
  )
  const { rows: prices } = await sql.query<PriceRow & { hoster_id: string }>(
    `SELECT e.hoster_id, ${PRICE_COLUMNS} FROM hoster_price p JOIN hoster_endpoint e USING (endpoint_id)
       JOIN hoster_model m ON m.model_id = p.model_id AND m.state = 'approved'
      WHERE p.valid_until IS NULL AND e.hoster_id = ANY ($1) ORDER BY p.model_id`,
    [hosters.map(hoster => hoster.hosterId)],
  )
  const byHoster = Map.groupBy(prices, row => row.hoster_id)
  return hosters.map(hoster => factsOf(hoster, byHoster.get(hoster.hosterId) ?? []))
}

function factsOf(hoster: FactsRow, prices: readonly PriceRow[]): HosterFacts {
  const { manifest } = hoster
  const described = new Map(manifest?.models.map(model => [model.id, model]))
  return {
    id: hoster.hosterId,
    object: 'hoster',
    name: hoster.name,
    state: hoster.state,
    since: hoster.activeSince.toISOString(),
    region: manifest?.region ?? null,
    data_policy: manifest?.data_policy ?? null,
    trust_score: hoster.trustScore,
    models: prices.map(hostedModel).map(({ modelId, price, contextTokens, maxOutputTokens, features }) => ({
      id: modelId,
      name: described.get(modelId)?.name ?? null,
      quantization: described.get(modelId)?.quantization ?? null,
      context_length: contextTokens,
      max_output_length: maxOutputTokens,
      supported_features: [...features],
      pricing: {
        prompt: usdPerTokenText(price.inputPicoPerToken),
        completion: usdPerTokenText(price.outputPicoPerToken),
        input_cache_read: textOf(price.cacheReadPicoPerToken),
        input_cache_write: textOf(price.cacheWritePicoPerToken),
      },
    })),
  }
}

function textOf(pico: bigint | undefined): string | null {
  return pico === undefined ? null : usdPerTokenText(pico)
}
