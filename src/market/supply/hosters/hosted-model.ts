import type { Sql } from '../../../base/db/pool.ts'
import type { Feature } from '../../../base/domain/chat-job.ts'
import { type PriceList, plainPrices } from '../../../base/domain/price-list.ts'

/** One model of a hoster with its price. */
export interface HostedModel {
  readonly modelId: string
  /** The model id at the hoster, if it differs. */
  readonly upstreamModel?: string | undefined
  readonly price: HosterPrice
  readonly contextTokens: number
  readonly maxOutputTokens: number
  /** How many requests at once the server takes for this model. Null: not declared. */
  readonly maxConcurrent?: number | null | undefined
  readonly features: readonly Feature[]
}

/** Picodollars per token. Without a cache price, cached tokens cost the input price; no cache price is above it. */
export interface HosterPrice {
  readonly inputPicoPerToken: bigint
  readonly outputPicoPerToken: bigint
  readonly cacheReadPicoPerToken?: bigint | undefined
  readonly cacheWritePicoPerToken?: bigint | undefined
}

/** A row of `hoster_price`: one version of a price. */
export interface PriceRow {
  model_id: string
  upstream_model: string
  version: number
  input_pico_per_token: bigint
  output_pico_per_token: bigint
  cache_read_pico_per_token: bigint | null
  cache_write_pico_per_token: bigint | null
  context_tokens: number
  max_output_tokens: number
  max_concurrent: number | null
  features: Feature[]
}

export function hostedModel(row: PriceRow): Required<HostedModel> {
  return {
    modelId: row.model_id,
    upstreamModel: row.upstream_model,
    price: {
      inputPicoPerToken: row.input_pico_per_token,
      outputPicoPerToken: row.output_pico_per_token,
      ...(row.cache_read_pico_per_token !== null && { cacheReadPicoPerToken: row.cache_read_pico_per_token }),
      ...(row.cache_write_pico_per_token !== null && { cacheWritePicoPerToken: row.cache_write_pico_per_token }),
    },
    contextTokens: row.context_tokens,
    maxOutputTokens: row.max_output_tokens,
    maxConcurrent: row.max_concurrent,
    features: row.features,
  }
}

/** The columns of PriceRow, of the table `p`. */
export const PRICE_COLUMNS = `p.model_id, p.upstream_model, p.version, p.input_pico_per_token, p.output_pico_per_token,
         p.cache_read_pico_per_token, p.cache_write_pico_per_token, p.context_tokens, p.max_output_tokens, p.max_concurrent, p.features`

/** Returns the price list of a hoster's model. */
export function priceListOf(price: HosterPrice): PriceList {
  const { cacheReadPicoPerToken, cacheWritePicoPerToken } = price
  return {
    ...plainPrices(price.inputPicoPerToken, price.outputPicoPerToken),
    parts: {
      ...(cacheReadPicoPerToken !== undefined && { cache_read: cacheReadPicoPerToken }),
      ...(cacheWritePicoPerToken !== undefined && { cache_write: cacheWritePicoPerToken }),
    },
  }
}

/** Inserts one version of the price of a model. */
export async function insertPrice(sql: Sql, endpointId: string, version: number, model: HostedModel): Promise<void> {
  await sql.query(
    `INSERT INTO hoster_price (endpoint_id, model_id, version, upstream_model, input_pico_per_token, output_pico_per_token,
                               context_tokens, max_output_tokens, features, cache_read_pico_per_token, cache_write_pico_per_token,
                               max_concurrent)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)`,
    [
      endpointId,
      model.modelId,
      version,
      model.upstreamModel ?? model.modelId,
      model.price.inputPicoPerToken,
      model.price.outputPicoPerToken,
      model.contextTokens,
      model.maxOutputTokens,
      [...model.features],
      model.price.cacheReadPicoPerToken ?? null,
      model.price.cacheWritePicoPerToken ?? null,
      model.maxConcurrent ?? null,
    ],
  )
}
