import type { Sql } from '../../base/db/pool.ts'
import { HOUR_MS, MINUTE_MS } from '../../base/domain/durations.ts'
import { usdPerMillion } from '../../base/domain/money.ts'
import type { HosterOffers } from '../../wire/api/hoster-console.ts'
import { hostedModel, PRICE_COLUMNS, type PriceRow } from '../supply/hosters/hosted-model.ts'
import { readShownScore } from '../supply/hosters/shown-score.ts'
import { listOffered, listWaiting } from './manifests.ts'
import {
  type Competitor,
  priceCandidates,
  type RankingRules,
  shownCompetitors,
  type TypicalRequest,
} from './offer-insight.ts'
import type { PriceRules } from './price-rules.ts'
import { showHoster, showManifest } from './show-hoster.ts'

export interface OfferMarket {
  readonly rules: PriceRules
  readonly ranking: RankingRules
  /** The servers of others that compete for the requests of a model now. */
  competitors(modelId: string, hosterId: string): Competitor[]
  /** Whether clouds compete, instead of being tried after all others. */
  readonly cloudCompetes: boolean
}

const MARKET_DAYS = 7
/** Where nobody has asked for the model yet: a page of prompt, and the output that routing expects. */
const ASSUMED: TypicalRequest = { inputTokens: 500, outputTokens: 256 }
const VERSIONS_SHOWN = 10

/**
 * Returns what a hoster offers, the versions of its prices, and what other prices would do. Reads sums by day and
 * prices, and no requests. Throws `hoster_not_found`.
 */
export async function showOffers(
  sql: Sql,
  hosterId: string,
  market: OfferMarket,
  nowMs: number,
): Promise<HosterOffers> {
  const { rules, ranking } = market
  const { endpointId, shareBps } = await showHoster(sql, hosterId)
  const trust = await readShownScore(sql, hosterId, nowMs)
  const offered = await listOffered(sql, endpointId, nowMs - rules.riseNoticeMs)
  const scheduled = (await listWaiting(sql, endpointId)).filter(({ state }) => state === 'scheduled')
  const versions = Map.groupBy(await listVersions(sql, endpointId), row => row.model_id)
  const demand = await readDemand(
    sql,
    offered.map(({ model }) => model.modelId),
    { nowMs, withClouds: market.cloudCompetes },
  )
  return {
    object: 'hoster.offers',
    manifest: await showManifest(sql, hosterId),
    rules: {
      max_input_usd_per_million: usdPerMillion(rules.max.inputPicoPerToken),
      max_output_usd_per_million: usdPerMillion(rules.max.outputPicoPerToken),
      change_minutes: rules.changeIntervalMs / MINUTE_MS,
      rise_percent: rules.risePercent,
      notice_hours: rules.riseNoticeMs / HOUR_MS,
      share_percent: shareBps / 100,
    },
    data: offered
      .toSorted((a, b) => (a.model.modelId < b.model.modelId ? -1 : 1))
      .map(({ model, lowest }) => {
        const { modelId, price } = model
        const waiting = scheduled.find(each => each.model.modelId === modelId)
        const found = demand.get(modelId)
        const typical = found ?? ASSUMED
        const requests = found?.requests ?? 0
        const others = market.competitors(modelId, hosterId)
        const own = { price, lowest, trust, shareBps }
        return {
          model: modelId,
          upstream_model: model.upstreamModel ?? modelId,
          context_length: model.contextTokens,
          max_output_length: model.maxOutputTokens,
          max_concurrent: model.maxConcurrent ?? null,
          supported_features: [...model.features],
          ...shown(price),
          cache_read_usd_per_million: optional(price.cacheReadPicoPerToken),
          cache_write_usd_per_million: optional(price.cacheWritePicoPerToken),
          versions: (versions.get(modelId) ?? []).map(row => ({
            version: row.version,
            ...shown(hostedModel(row).price),
            valid_from: row.valid_from.toISOString(),
            valid_until: row.valid_until?.toISOString() ?? null,
          })),
          scheduled:
            waiting === undefined
              ? null
              : { ...shown(waiting.model.price), applies_at: waiting.appliesAt.toISOString() },
          market: {
            days: MARKET_DAYS,
            requests,
            input_tokens: typical.inputTokens,
            output_tokens: typical.outputTokens,
            is_assumed: found === undefined,
            others: shownCompetitors(others, typical, ranking),
          },
          candidates: priceCandidates(own, others, { ...typical, requests }, { rules, ranking }),
        }
      }),
  }
}

interface VersionRow extends PriceRow {
  readonly valid_from: Date
  readonly valid_until: Date | null
}

/** Returns the last versions of the price of each model, the newest first. */
async function listVersions(sql: Sql, endpointId: string): Promise<VersionRow[]> {
  const { rows } = await sql.query<VersionRow>(
    `SELECT * FROM (
       SELECT ${PRICE_COLUMNS}, p.valid_from, p.valid_until, row_number() OVER (PARTITION BY p.model_id ORDER BY p.version DESC) AS place
         FROM hoster_price p WHERE p.endpoint_id = $1) AS latest
      WHERE place <= $2 ORDER BY model_id, version DESC`,
    [endpointId, VERSIONS_SHOWN],
  )
  return rows
}

/**
 * Returns the answered requests of the last days and their mean tokens, for each model that had some. Reads sums of all
 * customers.
 */
async function readDemand(
  sql: Sql,
  models: readonly string[],
  { nowMs, withClouds }: { readonly nowMs: number; readonly withClouds: boolean },
): Promise<Map<string, TypicalRequest & { readonly requests: number }>> {
  const { rows } = await sql.query<{ model: string; successes: bigint; input: bigint; output: bigint }>(
    `SELECT model_id AS model, sum(successes)::bigint AS successes, sum(input_tokens)::bigint AS input, sum(output_tokens)::bigint AS output
       FROM platform_day
      WHERE model_id = ANY ($1) AND day > ($2::timestamptz AT TIME ZONE 'UTC')::date - $3::integer
        AND provider <> 'none' AND (provider <> 'cloud' OR $4)
      GROUP BY model_id HAVING sum(successes) > 0`,
    [models, new Date(nowMs), MARKET_DAYS, withClouds],
  )
  return new Map(
    rows.map(({ model, successes, input, output }) => [
      model,
      {
        requests: Number(successes),
        inputTokens: Math.round(Number(input) / Number(successes)),
        outputTokens: Math.round(Number(output) / Number(successes)),
      },
    ]),
  )
}

function shown({ inputPicoPerToken, outputPicoPerToken }: { inputPicoPerToken: bigint; outputPicoPerToken: bigint }) {
  return {
    input_usd_per_million: usdPerMillion(inputPicoPerToken),
    output_usd_per_million: usdPerMillion(outputPicoPerToken),
  }
}

function optional(pico: bigint | undefined): number | null {
  return pico === undefined ? null : usdPerMillion(pico)
}
